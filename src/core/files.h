/* files.h: what the file formats share. */
#ifndef SFT_FILES_H
#define SFT_FILES_H

#include "core.h"

/* A file that replaces another one, or leaves it alone. Opened as a temporary in the same folder;
 * commit syncs it and renames it; discard removes it. One of both must be called. */
typedef struct sft_outfile {
    int fd;
    char *path, *tmp;
    const char *what; /* prefix of messages: "save" */
} sft_outfile;
sft_status sft_outfile_open(sft_outfile *f, const char *path, const char *what);
sft_status sft_outfile_write(sft_outfile *f, const void *data, size_t bytes);
sft_status sft_outfile_commit(sft_outfile *f);
void sft_outfile_discard(sft_outfile *f);

/* The elements of t, row-major, in pieces, little-endian as they are in memory. */
sft_status sft_outfile_tensor(sft_outfile *f, sft_tensor *t);

/* Reads exactly `bytes` at `offset`. */
sft_status sft_read_at(int fd, const char *path, void *data, size_t bytes, uint64_t offset);
/* Opens for reading; *size is the file's size. -1 with an error that names the path. */
int sft_open_read(const char *path, const char *what, uint64_t *size);

#endif

/* files.c: reading, and writing so that a crash, a full disk or Ctrl-C leaves the old file or the
 * new one, never half of one. */
#include "files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static sft_status fail_errno(const char *what, const char *path, const char *doing) {
    char text[128];
    const char *msg = strerror_r(errno, text, sizeof text);
    return sft_fail(SFT_ERR_IO, "%s: %s: %s: %s", what, path, doing, msg);
}

/* A device or a pipe is written to as it is: renaming would put a file in its place. */
static sft_status open_special(sft_outfile *f) {
    f->fd = open(f->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (f->fd >= 0) return SFT_OK;
    sft_status st = fail_errno(f->what, f->path, "can't open");
    sft_outfile_discard(f);
    return st;
}

sft_status sft_outfile_open(sft_outfile *f, const char *path, const char *what) {
    struct stat old;
    bool exists = stat(path, &old) == 0;
    /* What a symbolic link points to is replaced, not the link. */
    char *real = exists ? realpath(path, NULL) : NULL;
    size_t n = strlen(real ? real : path);
    *f = (sft_outfile){.fd = -1, .what = what};
    f->path = real ? real : strdup(path);
    if (f->path && exists && !S_ISREG(old.st_mode)) return open_special(f);
    f->tmp = malloc(n + 16);
    if (!f->path || !f->tmp) {
        free(f->tmp);
        f->tmp = NULL;
        sft_outfile_discard(f);
        return sft_fail(SFT_ERR_MEMORY, "out of memory");
    }
    memcpy(f->tmp, f->path, n);
    /* A name that no other writer has: O_EXCL says whether it is free. The permissions are those of
     * any new file, or of the file that is replaced. */
    static _Atomic unsigned counter;
    for (int tries = 0; f->fd < 0 && tries < 100; tries++) {
        unsigned id = (unsigned)getpid() * 2654435761u + counter++ * 40503u;
        snprintf(f->tmp + n, 16, ".tmp%08x", id);
        f->fd = open(f->tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd < 0 && errno != EEXIST) break;
    }
    if (f->fd < 0) {
        sft_status st = fail_errno(what, path, "can't create a file beside it");
        free(f->tmp);
        f->tmp = NULL;
        sft_outfile_discard(f);
        return st;
    }
    if (exists && fchmod(f->fd, old.st_mode & 07777) != 0) errno = 0;
    return SFT_OK;
}

sft_status sft_outfile_write(sft_outfile *f, const void *data, size_t bytes) {
    const char *p = data;
    while (bytes > 0) {
        ssize_t n = write(f->fd, p, bytes < (1u << 30) ? bytes : (1u << 30));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return fail_errno(f->what, f->path, "write failed, the file is as it was");
        p += n;
        bytes -= (size_t)n;
    }
    return SFT_OK;
}

sft_status sft_outfile_tensor(sft_outfile *f, sft_tensor *t) {
    size_t es = sft_esize(t);
    if (t->contiguous && t->device.type == SFT_CPU)
        return sft_outfile_write(f, t->data, (size_t)t->numel * es);
    /* The tensor's own elements only, however large the storage behind it. */
    sft_tensor *copy = sft_empty(t->shape, t->ndim, (sft_dtype)t->dtype, (sft_device){SFT_CPU, 0});
    if (!copy) return sft_last_status();
    sft_status st = sft_copy_raw(copy, t);
    if (st == SFT_OK) st = sft_outfile_write(f, copy->data, (size_t)copy->numel * es);
    sft_release(copy);
    return st;
}

sft_status sft_outfile_commit(sft_outfile *f) {
    sft_status st = SFT_OK;
    if (fsync(f->fd) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
        st = fail_errno(f->what, f->path, "sync failed, the file is as it was");
    if (close(f->fd) != 0 && st == SFT_OK)
        st = fail_errno(f->what, f->path, "close failed, the file is as it was");
    f->fd = -1;
    if (!f->tmp) {
        sft_outfile_discard(f);
        return st;
    }
    if (st == SFT_OK && rename(f->tmp, f->path) != 0)
        st = fail_errno(f->what, f->path, "rename failed, the file is as it was");
    if (st == SFT_OK) {
        /* The folder's entry must survive a power failure too. */
        char *slash = strrchr(f->path, '/');
        if (slash) slash[slash == f->path] = 0;
        int dir = open(slash ? f->path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir >= 0) {
            if (fsync(dir) != 0) errno = 0;
            close(dir);
        }
        free(f->tmp);
        f->tmp = NULL;
    }
    sft_outfile_discard(f);
    return st;
}

void sft_outfile_discard(sft_outfile *f) {
    if (f->fd >= 0) close(f->fd);
    if (f->tmp) unlink(f->tmp);
    free(f->tmp);
    free(f->path);
    *f = (sft_outfile){.fd = -1};
}

int sft_open_read(const char *path, const char *what, uint64_t *size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0) {
        fail_errno(what, path, "can't open");
        return -1;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        sft_fail(SFT_ERR_IO, "%s: %s: not a regular file", what, path);
        close(fd);
        return -1;
    }
    *size = (uint64_t)st.st_size;
    return fd;
}

sft_status sft_read_at(int fd, const char *path, void *data, size_t bytes, uint64_t offset) {
    char *p = data;
    while (bytes > 0) {
        ssize_t n = pread(fd, p, bytes < (1u << 30) ? bytes : (1u << 30), (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("load", path, "read failed");
        if (n == 0) return sft_fail(SFT_ERR_IO, "load: %s: the file ends too early", path);
        p += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return SFT_OK;
}

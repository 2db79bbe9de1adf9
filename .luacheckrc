std = "lua54"
max_line_length = 120
exclude_files = {"build*/"}
-- `_` is what a loop doesn't need; `self` may go unused in a method that overrides another
ignore = {"212/self", "212/_.*"}
files["spec"].std = "+busted"

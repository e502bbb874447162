# Counts lines. The schema permits letters and digits alone, so the ending needs no decoding.
# The working directory is the workspace. Changes count only if the answer is a success, and can be undone.
IFS= read -r request
ending=${request#*'"ending":"'}
ending=${ending%%'"'*}
find . -type f -name "*.$ending" -exec wc -l {} \; > "$HOME/counts" || exit 1
files=$(grep -c '' "$HOME/counts")
lines=$(awk '{ lines += $1 } END { print lines + 0 }' "$HOME/counts")
cp "$HOME/counts" line-counts.txt || exit 1
printf '{"ok":true,"data":{"files":%d,"lines":%d}}\n' "$files" "$lines"

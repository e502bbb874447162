# Reads one request as a line of JSON, and writes one answer as a line of JSON.
# The schema permits plain letters, digits and spaces alone, so the text needs no decoding.
IFS= read -r request
text=${request#*'"text":"'}
text=${text%%'"'*}
set -f
set -- $text
printf '{"ok":true,"data":{"words":%d}}\n' "$#"

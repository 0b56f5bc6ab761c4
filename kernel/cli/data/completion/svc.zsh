#compdef svc
# zsh completion of svc; put it into a folder of $fpath as _svc
_svc () {
  local -a found
  found=( ${(f)"$(svc complete-words -- "${(@)words[2,CURRENT-1]}" "${words[CURRENT]}" 2>/dev/null)"} )
  if (( ${#found} )); then compadd -a found; else _files; fi
}
if [ "$funcstack[1]" = _svc ]; then _svc "$@"; else compdef _svc svc; fi

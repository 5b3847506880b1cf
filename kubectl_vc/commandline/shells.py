"""Scripts that complete `kubectl-vc` in a shell. Each loads the completion of kubectl, too.

kubectl completes `kubectl vc` itself, with the program `kubectl_complete-vc`.
"""

BASH = r"""# Completion of kubectl vc and kubectl-vc for bash. Add to ~/.bashrc:
#   source <(kubectl vc completion bash)
declare -F __start_kubectl >/dev/null || source <(kubectl completion bash)
_kubectl_vc() {
    local -a lines
    mapfile -t lines < <(kubectl_complete-vc "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    (( ${#lines[@]} )) || return
    [[ ${lines[-1]} == :0 ]] && compopt -o default
    unset 'lines[-1]'
    COMPREPLY=("${lines[@]%%$'\t'*}")
}
complete -F _kubectl_vc kubectl-vc
"""

ZSH = r"""#compdef kubectl-vc
# Completion of kubectl vc and kubectl-vc for zsh. Add to ~/.zshrc, after compinit:
#   source <(kubectl vc completion zsh)
(( ${+functions[_kubectl]} )) || source <(kubectl completion zsh)
_kubectl_vc() {
    local -a lines found
    lines=("${(@f)$(kubectl_complete-vc "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    local directive=${lines[-1]}
    lines=("${(@)lines[1,-2]}")
    if [[ $directive == :0 ]]; then _files; return; fi
    found=("${(@)lines//:/\\:}")
    found=("${(@)found/$'\t'/:}")
    _describe 'kubectl-vc' found
}
compdef _kubectl_vc kubectl-vc
"""

FISH = r"""# Completion of kubectl vc and kubectl-vc for fish. Add to ~/.config/fish/config.fish:
#   kubectl vc completion fish | source
kubectl completion fish | source
function __kubectl_vc_complete
    set -l words (commandline -opc)[2..-1] (commandline -ct)
    kubectl_complete-vc $words 2>/dev/null | string match -v -r '^:[0-9]+$'
end
complete -c kubectl-vc -f -a '(__kubectl_vc_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}

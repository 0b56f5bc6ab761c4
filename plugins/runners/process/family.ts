import { spawn } from 'node:child_process'

/**
 * Imported first by the runner's entry. The node may have died between starting this process and the
 * moment the kernel ties their lives together; then nobody would ever end it.
 */
if (process.ppid !== Number(process.argv[2])) process.kill(process.pid, 'SIGKILL')
process.umask(0o077)

/**
 * Starts a tiny shell in the runner's process group that waits for this process to end, however it ends,
 * and then kills the group: what an engine has started (an external server) never outlives its runner.
 * It ignores the signals of an orderly stop, so that it is the last to go.
 */
export function guardFamily (onError: (error: Error) => void): void {
  const guard = spawn('/bin/sh', ['-c', 'trap "" TERM INT HUP; read -r _; kill -KILL 0'], {
    stdio: ['pipe', 'ignore', 'ignore'], env: {}
  })
  guard.on('error', onError)
  guard.stdin.on('error', () => {})
  guard.unref()
}

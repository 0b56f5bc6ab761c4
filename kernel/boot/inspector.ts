/**
 * SIGUSR1 makes Node open its inspector, through which any local program can run code. Any process run by
 * this user may send the signal, even a sandboxed one.
 */

/** Node options for a child process that must never open its inspector. */
export const noInspector = (): string[] => process.allowedNodeEnvironmentFlags.has('--disable-sigusr1')
  ? ['--disable-sigusr1']
  // For older Node versions: the inspector cannot listen on a link-local address without an interface.
  : ['--inspect-port=[fe80::]:9229']

/** Ignores SIGUSR1 from now on, and closes an inspector that an earlier SIGUSR1 opened in this process. */
export function refuseInspector (env: NodeJS.ProcessEnv): void {
  if (process.listenerCount('SIGUSR1') === 0) process.on('SIGUSR1', () => {})
  const asked = [...process.execArgv, env['NODE_OPTIONS'] ?? ''].some((word) => /(^| )--inspect/.test(word))
  // A Node built without an inspector lacks this module.
  if (!asked) process.getBuiltinModule('node:inspector')?.close()
}

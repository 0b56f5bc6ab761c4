/**
 * SIGUSR1 makes Node open its inspector, which runs any code for any program of this machine. The signal may
 * come from every process of the same user, so a confined one must not gain by it.
 */

/** Node's options for a child in which the signal has no effect, also before its first line runs. */
export const noInspector = (): string[] => process.allowedNodeEnvironmentFlags.has('--disable-sigusr1')
  ? ['--disable-sigusr1']
  // An older Node cannot listen on a link-local address without an interface.
  : ['--inspect-port=[fe80::]:9229']

/** Takes the signal from now on, and closes the inspector that an earlier one has opened in this process. */
export function refuseInspector (env: NodeJS.ProcessEnv): void {
  if (process.listenerCount('SIGUSR1') === 0) process.on('SIGUSR1', () => {})
  const asked = [...process.execArgv, env['NODE_OPTIONS'] ?? ''].some((word) => /(^| )--inspect/.test(word))
  // A Node without an inspector has no such module.
  if (!asked) process.getBuiltinModule('node:inspector')?.close()
}

/**
 * SIGUSR1 makes Node open its inspector, which runs code for every local program. Any process of the same
 * user may send it, also a confined one.
 */

/** Node options for a child that must not open its inspector at any time. */
export const noInspector = (): string[] => process.allowedNodeEnvironmentFlags.has('--disable-sigusr1')
  ? ['--disable-sigusr1']
  // An older Node cannot listen on a link-local address without an interface.
  : ['--inspect-port=[fe80::]:9229']

/** Handles the signal from now on, and closes an inspector that an earlier one opened in this process. */
export function refuseInspector (env: NodeJS.ProcessEnv): void {
  if (process.listenerCount('SIGUSR1') === 0) process.on('SIGUSR1', () => {})
  const asked = [...process.execArgv, env['NODE_OPTIONS'] ?? ''].some((word) => /(^| )--inspect/.test(word))
  // A Node without an inspector has no such module.
  if (!asked) process.getBuiltinModule('node:inspector')?.close()
}

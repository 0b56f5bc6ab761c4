import { randomBytes } from 'node:crypto'
import { systemClock } from '../../../kernel/index.js'
import { deviceKeysOf, savedDevices, type DeviceFile } from '../../devices/signing/device.js'
import { knownOf, fetchRelays } from '../device/known.js'
import { RelayConnection } from '../device/connection.js'
import type { VerbContext } from '../../../kernel/cli/index.js'

/** Finds the saved device with the given id or name, by default the newest one. Throws CliError. */
export function deviceOf (ctx: VerbContext, options: Record<string, unknown>): DeviceFile {
  const wanted = options['device'] as string | undefined
  const all = savedDevices(ctx.home).sort((a, b) => a.grant.created < b.grant.created ? 1 : -1)
  const found = all.find(({ deviceId, name }) => [undefined, deviceId, name].includes(wanted))
  if (found !== undefined) return found
  throw ctx.fail(3, all.length === 0
    ? 'this machine is no device of a cluster: run svc device pair URL where the node is reachable directly'
    : `there is no device "${wanted}"; the devices are: ${all.map(({ name }) => name).join(', ')}`)
}

/** Opens a saved device's connection to its cluster, which dials on first use. */
export async function openLine (
  ctx: VerbContext, options: Record<string, unknown>
): Promise<{ device: DeviceFile, line: RelayConnection }> {
  const device = deviceOf(ctx, options)
  const line = new RelayConnection({
    keys: deviceKeysOf(device), clock: systemClock, random: randomBytes,
    known: () => knownOf(ctx.home, device),
    reached: (ask) => fetchRelays(ctx.home, device, ask, { proven: true })
  })
  return { device, line }
}

/** Opens a listener. Throws CliError (1) if that fails. */
export async function listening<T> (
  ctx: VerbContext, { host, port }: { host: string, port: number }, open: () => Promise<T>
): Promise<T> {
  try {
    return await open()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const why = code === 'EADDRINUSE' ? 'the port is in use; choose another with --port' : message
    throw ctx.fail(1, `cannot listen at ${host} port ${port}: ${why}`)
  }
}

/** Resolves when the process gets a stop signal. */
export async function stopped ({ signal }: VerbContext): Promise<void> {
  await new Promise<void>((resolve) => {
    for (const name of ['SIGTERM', 'SIGHUP'] as const) process.once(name, () => { resolve() })
    signal.addEventListener('abort', () => { resolve() }, { once: true })
    if (signal.aborted) resolve()
  })
}

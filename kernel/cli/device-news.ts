import { saveDevice, savedDevices, deviceFor } from '../signing/device.js'
import { systemClock } from '../api/clock.js'
import { CliError } from './errors.js'
import { homeManifests } from './contributed.js'
import type { DeviceFile } from '../signing/device.js'
import type { Client } from './client.js'
import type { VerbContext } from './verb.js'

/** Context of a plugin that stores cluster data on a paired device. */
export interface DeviceNewsContext {
  readonly home: string
  readonly device: DeviceFile
  /** The node's answer to a GET of the device. Throws CliError. */
  ask<T> (path: string): Promise<T>
}

/** The default export of the module of declared `deviceNews`. */
export interface DeviceNews {
  /** Stores its data; returns lines for somebody who has just paired the device. */
  run (ctx: DeviceNewsContext): Promise<readonly string[]>
}

const DAY_MS = 24 * 60 * 60 * 1000
/** Longest wait for device data, ms. */
const LIMIT_MS = 5000

/**
 * Lets the plugins store data of a node that this machine, a device of it, has reached directly: once a day,
 * and after each start of the node, since settings may differ. Failures never reach the command that met the
 * node. Returns lines for somebody who pairs.
 */
export async function deviceNews (
  ctx: Pick<VerbContext, 'home' | 'io' | 'plugins'>, client: Pick<Client, 'json' | 'url'>
): Promise<string[]> {
  const device = deviceFor(ctx.home, client.url)
  if (device === undefined || !isDue(device, client.url)) return []
  const signal = AbortSignal.timeout(LIMIT_MS)
  const ask: DeviceNewsContext['ask'] = async (path) => await client.json(path, { signal })
  const manifests = await homeManifests(ctx)
  const all = manifests.flatMap(({ deviceNews: parts = {} }) => Object.values(parts))
  const answers = await Promise.all(all.map(async ({ load }) => {
    try {
      return await ((await load()).default as DeviceNews).run({ home: ctx.home, device, ask })
    } catch (error) {
      // A node may lack the plugin; one without an answer is retried the next time.
      return error instanceof CliError && error.status !== undefined ? [] : undefined
    }
  }))
  if (!answers.includes(undefined)) note(ctx.home, device.deviceId, client.url)
  return answers.flatMap((lines) => lines ?? [])
}

function isDue ({ news, seen }: DeviceFile, url: string): boolean {
  const { origin } = new URL(url)
  const last = news?.[origin]
  const ageMs = systemClock.now() - Date.parse(last?.at ?? '')
  return last === undefined || last.nodeId !== seen[origin]?.nodeId || !(ageMs >= 0 && ageMs < DAY_MS)
}

function note (home: string, deviceId: string, url: string): void {
  const newest = savedDevices(home).find((one) => one.deviceId === deviceId)
  if (newest === undefined) return
  const { origin } = new URL(url)
  const { nodeId = '' } = newest.seen[origin] ?? {}
  const at = new Date(systemClock.now()).toISOString()
  saveDevice(home, { ...newest, news: { ...newest.news, [origin]: { nodeId, at } } })
}

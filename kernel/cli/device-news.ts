import { saveDevice, savedDevices, deviceFor } from '../signing/device.js'
import { systemClock } from '../api/clock.js'
import { CliError } from './errors.js'
import { homeManifests } from './contributed.js'
import type { DeviceFile } from '../signing/device.js'
import type { Client } from './client.js'
import type { VerbContext } from './verb.js'

/** What a plugin that keeps something of a cluster on a device of it works with. */
export interface DeviceNewsContext {
  readonly home: string
  readonly device: DeviceFile
  /** What the node answers to a GET of the device. Throws CliError. */
  ask<T> (path: string): Promise<T>
}

/** The default export of the module of declared `deviceNews`. */
export interface DeviceNews {
  /** Keeps what it wants to know; returns what is worth a line to somebody who has just paired the device. */
  run (ctx: DeviceNewsContext): Promise<readonly string[]>
}

const DAY_MS = 24 * 60 * 60 * 1000
/** Nobody waits longer for news than this, ms. */
const LIMIT_MS = 5000

/**
 * Has the plugins keep what they want to know of the node that this machine, a device of it, has reached
 * directly: once a day, and when the node has started anew since, as settings may be others then. What comes
 * of it is never the concern of the command that has met the node. Returns lines for somebody who pairs.
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
      // A node may lack the plugin; one that is gone is asked again the next time.
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

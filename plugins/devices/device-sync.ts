import { systemClock } from '../../kernel/index.js'
import { homeManifests, isVerbError } from '../../kernel/cli/index.js'
import { deviceFor, saveDevice, savedDevices, signerAt } from './signing/device.js'
import type { CredentialHelper, VerbContext } from '../../kernel/cli/index.js'
import type { DeviceNews, DeviceNewsContext } from './service.js'
import type { DeviceFile } from './signing/device.js'

const DAY_MS = 24 * 60 * 60 * 1000
/** Time limit in ms for fetching device data. */
const LIMIT_MS = 5000

/**
 * Lets plugins store a node's data on this machine, which is a device of that node: once a day, and after the
 * node has restarted, since its settings may have changed. Returns lines to show after pairing. Errors never
 * affect the command that contacted the node.
 */
export const syncDevice = async (ctx: VerbContext, url: string): Promise<string[]> =>
  await collect(ctx, url).catch(() => [])

async function collect (ctx: VerbContext, url: string): Promise<string[]> {
  const { home } = ctx
  const device = deviceFor(home, url)
  if (device === undefined || !isDue(device, url)) return []
  const client = ctx.clientFor({ url, token: undefined, signing: async () => signer(home, url) })
  const signal = AbortSignal.timeout(LIMIT_MS)
  const ask: DeviceNewsContext['ask'] = async (path) => await client.json(path, { signal })
  const manifests = await homeManifests(ctx)
  const all = manifests.flatMap(({ deviceNews: parts = {} }) => Object.values(parts))
  const answers = await Promise.all(all.map(async ({ load }) => {
    try {
      return await ((await load()).default as DeviceNews).run({ home, device, ask })
    } catch (error) {
      // An error response may mean that the node lacks the plugin; without a response, try again next time.
      return isVerbError(error) && error.status !== undefined ? [] : undefined
    }
  }))
  if (!answers.includes(undefined)) note(home, device.deviceId, url)
  return answers.flatMap((lines) => lines ?? [])
}

const signer: CredentialHelper['signerAt'] = (home, url) => signerAt(home, url, systemClock.now)

/** Signs requests from the command line if its home is paired with the node as a device. */
export default {
  signerAt: signer,
  used: async (ctx) => await syncDevice(ctx, ctx.client.url)
} satisfies CredentialHelper

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

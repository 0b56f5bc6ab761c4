import { networkInterfaces } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { definePlugin, type ModelCard } from '../../kernel/index.js'
import type { GangOffer, OfferedDriver } from '../runners/service.js'
import { runsOn } from '../runners/cards/backends.js'
import { findPrograms, wordsOf, type Found, type Settings } from './find.js'
import { ENGINE } from './descriptions.js'
import { manifest } from './manifest.js'

/** Milliseconds for which found programs are known, since a search reads folders. */
const KNOWN_MS = 10_000
const MIB = 2 ** 20

export default definePlugin(manifest, async ({ config, clock, deps: { drivers, audit }, effect }) => {
  const host = { platform: process.platform, env: process.env, uid: process.getuid?.() ?? 0 }
  const { collectives } = config as Settings
  if (collectives !== undefined) {
    const change = { who: 'svc.yaml', how: 'direct', what: ENGINE, bestEffort: true } as const
    const end = await audit?.begin({ ...change, detail: { collectives } })
    await end?.({ status: 200, reason: null, detail: {} })
  }
  let known: { atMs: number, driver: OfferedDriver | null } | undefined
  effect('programs', drivers.offer(ENGINE, () => {
    if (known === undefined || clock.mono() - known.atMs > KNOWN_MS) {
      const driver = driverOf(findPrograms(config as Settings, host), collectives?.interface)
      known = { atMs: clock.mono(), driver }
    }
    return known.driver
  }))
  return {}
})

/** The programs as the plugin runners uses them; null if there are none. `network` is for gangs. */
export function driverOf (all: readonly Found[], network?: string): OfferedDriver | null {
  const usable = all.filter(({ problem }) => problem === null)
  const [first] = usable
  if (first === undefined) return null
  const isMetal = first.description.backends.includes('metal') && process.platform === 'darwin'
  return {
    from: 'plugin', words: wordsOf(first), programs: usable.map(({ name }) => name),
    devices: isMetal ? ['Metal'] : null, fixedBytes: first.description.process_mib * MIB,
    gangs: Object.fromEntries(usable.flatMap((one) => {
      const gang = gangOf(one, network)
      return gang === null ? [] : [[one.name, gang]]
    })),
    options (card, chosen) {
      const named = chosen === undefined ? usable : all.filter(({ name }) => name === chosen)
      const found = named.find((one) => whyNot(one, card) === null)
      if (found !== undefined) return optionsOf(found)
      const why = named.map((one) => `${one.name}: ${whyNot(one, card)!}`).join('; ')
      return `no program runs ${card.modelId}: ${why === '' ? `there is none called ${chosen!}` : why}`
    }
  }
}

/** How a program forms gangs, null if it never does. Unlinked ones need a network that the operator names. */
function gangOf ({ description: { gang }, version }: Found, network?: string): GangOffer | null {
  if (gang === undefined) return null
  const { linked = false, models = [] } = gang
  const addresses = Object.fromEntries(Object.entries(networkInterfaces()).flatMap(([name, all = []]) =>
    all.filter(({ family }) => family === 'IPv4').slice(0, 1).map(({ address }) => [name, address])))
  const address = addresses[network ?? '']
  const problem = version === '' ? 'its version is unknown: name its `packages`'
    : linked || address !== undefined ? null
      : network === undefined ? 'its traffic between nodes is not encrypted: to allow it on a network that ' +
      'you trust, set plugins.openai-programs.collectives.interface in svc.yaml'
        : `the interface ${network} of plugins.openai-programs.collectives does not exist or has no IPv4 ` +
          `address; others: ${Object.keys(addresses).join(', ')}`
  return { version, models, linked, problem, ...linked ? {} : { network, address } }
}

function whyNot ({ problem, description: { weights, backends } }: Found, card: ModelCard): string | null {
  if (problem !== null) return problem
  const format = card.quantization ?? ''
  if (!RegExp(weights).test(format)) return `it does not load weights as ${format}`
  return backends.some((one) => runsOn(card, one)) ? null : `it does not run on ${card.backends.join(', ')}`
}

/** Each path is a separate option, because the sandbox of the runner makes paths in options readable. */
const optionsOf = (found: Found): Record<string, unknown> => ({
  program: found, serverBinary: found.path,
  ...found.root === null ? {} : {
    environment: join(found.root, 'pyvenv.cfg'), interpreter: join(found.root, 'bin', 'python3')
  },
  ...Object.fromEntries((found.description.args ?? []).flat().filter((arg) => isAbsolute(arg))
    .map((arg, i) => [`argument${i}`, arg]))
})

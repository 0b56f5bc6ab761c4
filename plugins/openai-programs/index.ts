import { isAbsolute, join } from 'node:path'
import { definePlugin, type ModelCard } from '../../kernel/index.js'
import type { OfferedDriver } from '../runners/service.js'
import { runsOn } from '../runners/cards/backends.js'
import { findPrograms, wordsOf, type Found, type Settings } from './find.js'
import { ENGINE } from './descriptions.js'
import { manifest } from './manifest.js'

/** Milliseconds for which found programs are known, since a search reads folders. */
const KNOWN_MS = 10_000
const MIB = 2 ** 20

export default definePlugin(manifest, ({ config, clock, deps: { drivers }, effect }) => {
  const host = { platform: process.platform, env: process.env, uid: process.getuid?.() ?? 0 }
  let known: { atMs: number, driver: OfferedDriver | null } | undefined
  effect('programs', drivers.offer(ENGINE, () => {
    if (known === undefined || clock.mono() - known.atMs > KNOWN_MS) {
      known = { atMs: clock.mono(), driver: driverOf(findPrograms(config as Settings, host)) }
    }
    return known.driver
  }))
  return {}
})

/** The programs as the plugin runners uses them; null if there are none. */
export function driverOf (all: readonly Found[]): OfferedDriver | null {
  const usable = all.filter(({ problem }) => problem === null)
  const [first] = usable
  if (first === undefined) return null
  const isMetal = first.description.backends.includes('metal') && process.platform === 'darwin'
  return {
    from: 'plugin', words: wordsOf(first), programs: usable.map(({ name }) => name),
    devices: isMetal ? ['Metal'] : null, fixedBytes: first.description.process_mib * MIB,
    options (card, chosen) {
      const named = chosen === undefined ? usable : all.filter(({ name }) => name === chosen)
      const found = named.find((one) => whyNot(one, card) === null)
      if (found !== undefined) return optionsOf(found)
      const why = named.map((one) => `${one.name}: ${whyNot(one, card)!}`).join('; ')
      return `no program runs ${card.modelId}: ${why === '' ? `there is none called ${chosen!}` : why}`
    }
  }
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

import { readFileSync } from 'node:fs'
import { builtIn, collectVerbs, longFlag, takesValue, topNames } from '../builtin.js'
import { installationOf } from '../installed.js'
import { listingPath } from '../invoke.js'
import { globalOptions, helpTopics } from '../program.js'
import type { Installation } from '../../plugins/installation.js'
import type { KnownVerb } from '../builtin.js'
import type { Listing } from '../invoke.js'
import type { Verb } from '../verb.js'

/** `svc completion` */
export const completion: Verb = {
  async run (ctx, [shell]) {
    const script = scriptFor(shell!)
    if (script === undefined) {
      throw ctx.fail(2, `no completion for "${shell!}"; there is: ${SHELLS.join(', ')}`)
    }
    ctx.io.stdout.write(script)
  }
}

/** `svc complete-words`, which the scripts call */
export const completeWords: Verb = {
  async run (ctx, words) {
    let read: Promise<Installation> | undefined
    const installation = (): Promise<Installation> => read ??= installationOf(ctx)
    const manifests = (await installation()).plugins.map(({ manifest }) => manifest)
    const found = await candidates(words, collectVerbs(builtIn, manifests), globalOptions, {
      topics: () => Object.keys(helpTopics),
      plugins: async () => manifests.map(({ name }) => name),
      capabilities: async () => {
        const listing = await ctx.client.json<Listing>(listingPath())
        return listing.capabilities.map((c) => `${c.id}@${c.version}`)
      },
      settings: async () => {
        const { resolveConfig } = await import('../../config/resolve.js')
        const { raw, owners } = await installation()
        const { config } = resolveConfig(raw, { owners, env: {} })
        return config.entries().map((entry) => entry.path)
      }
    })
    for (const word of found) ctx.out.line(word)
  }
}

/** Words of a running node or of svc.yaml that can stand for an argument; asked only where needed. */
export interface Names {
  plugins: () => Promise<string[]>
  capabilities: () => Promise<string[]>
  settings: () => Promise<string[]>
  topics: () => string[]
}

type Options = readonly (readonly [flags: string, description: string])[]

/**
 * What can come next after the words typed so far; the last word is the one being typed and may be empty.
 * Names that cannot be had (no node runs) are simply missing.
 */
export async function candidates (
  words: readonly string[], verbs: readonly KnownVerb[], globals: Options, names: Names
): Promise<string[]> {
  const typed = words.at(-1) ?? ''
  const before = words.slice(0, -1)
  const all = await possible(before, typed, verbs.filter((verb) => verb.hidden !== true), globals, names)
  return [...new Set(all)].filter((word) => word.startsWith(typed)).sort()
}

async function possible (
  before: readonly string[], typed: string, verbs: readonly KnownVerb[], globals: Options, names: Names
): Promise<string[]> {
  const plain = withoutOptions(before, verbs, globals)
  const verb = findVerb(plain, verbs)
  const options = [...globals, ...verb?.options ?? []]
  if (needsValue(before.at(-1), options)) return []
  if (typed.startsWith('-')) return options.flatMap(([flags]) => longFlag(flags) ?? [])
  if (plain[0] === 'help' && plain.length === 1) return [...topNames(verbs), ...names.topics()]
  if (verb !== undefined) return await argumentsOf(verb, plain.length - verb.name.split(' ').length, names)
  if (plain.length === 0) return [...topNames(verbs), 'help']
  if (plain.length > 1) return []
  return verbs.filter(({ name }) => name.startsWith(`${plain[0]!} `)).map(({ name }) => name.split(' ')[1]!)
}

/** The verb the words begin with, two words before one. */
function findVerb (plain: readonly string[], verbs: readonly KnownVerb[]): KnownVerb | undefined {
  const two = plain.slice(0, 2).join(' ')
  return verbs.find(({ name }) => name === two) ?? verbs.find(({ name }) => name === plain[0])
}

function withoutOptions (words: readonly string[], verbs: readonly KnownVerb[], globals: Options): string[] {
  const all = [...globals, ...verbs.flatMap((verb) => verb.options ?? [])]
  return words.filter((word, i) => !word.startsWith('-') && !needsValue(words[i - 1], all))
}

function needsValue (word: string | undefined, options: Options): boolean {
  if (word === undefined || !word.startsWith('-') || word.includes('=')) return false
  return options.some(([flags]) => takesValue(flags) && flags.split(/[ ,]+/).includes(word))
}

/** Names for the first argument of a verb, by what the verb calls it. */
async function argumentsOf (verb: KnownVerb, at: number, names: Names): Promise<string[]> {
  if (at > 0) return []
  if (verb.args?.includes('id@version') === true) return await names.capabilities().catch(() => [])
  if (verb.name.startsWith('plugin ') && verb.name !== 'plugin new' && verb.args !== undefined) {
    return await names.plugins().catch(() => [])
  }
  if (verb.name.startsWith('config ') && verb.args !== undefined) {
    return await names.settings().catch(() => [])
  }
  return verb.name === 'completion' ? SHELLS : []
}

/** Scripts for the shells; each asks `svc complete-words` with the words up to the cursor. */
const SHELLS = ['bash', 'zsh', 'fish']

/** The completion script for a shell; undefined when there is none. */
export function scriptFor (shell: string): string | undefined {
  if (!SHELLS.includes(shell)) return undefined
  return readFileSync(new URL(`../data/completion/svc.${shell}`, import.meta.url), 'utf8')
}

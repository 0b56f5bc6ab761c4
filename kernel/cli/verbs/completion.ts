import { readFileSync } from 'node:fs'
import { builtIn, collectVerbs, longFlag, takesValue, topNames, type KnownVerb } from '../builtin.js'
import { globalOptions, helpTopics } from '../help.js'
import { installationOf } from '../installed.js'
import type { Installation } from '../../plugins/installation.js'
import type { Verb } from '../verb.js'

export const completion: Verb = {
  async run (ctx, [shell]) {
    if (!SHELLS.includes(shell!)) {
      throw ctx.fail(2, `no completion for "${shell!}"; supported: ${SHELLS.join(', ')}`)
    }
    ctx.io.stdout.write(readFileSync(new URL(`../data/completion/svc.${shell!}`, import.meta.url)))
  }
}

/** Time limit in ms for the node to list names, since the user waits at the prompt. */
const ANSWER_MS = 1000

interface Live {
  capabilities: { id: string, version: string }[]
  nodeIdentities: Record<string, { friendlyName: string | null }>
  instances: Record<string, unknown>
}

export const completeWords: Verb = {
  async run (ctx, words) {
    let read: Promise<Installation> | undefined
    const installation = (): Promise<Installation> => read ??= installationOf(ctx)
    const manifests = (await installation()).plugins.map(({ manifest }) => manifest)
    const signal = AbortSignal.timeout(ANSWER_MS)
    const ask = async <T>(path: string): Promise<T> => await ctx.client.json<T>(path, { signal })
    const state = (): Promise<Live> => ask<Live>('/state')
    const found = await candidates(words, collectVerbs(builtIn, manifests), globalOptions, {
      topics: () => Object.keys(helpTopics),
      plugins: async () => manifests.map(({ name }) => name),
      capabilities: async () => {
        const { capabilities } = await ask<Pick<Live, 'capabilities'>>('/v1/capabilities')
        return capabilities.map(({ id, version }) => `${id}@${version}`)
      },
      models: async () => (await ask<{ data: { id: string }[] }>('/v1/models')).data.map(({ id }) => id),
      nodes: async () => {
        const { nodeIdentities } = await state()
        return Object.entries(nodeIdentities).map(([id, { friendlyName }]) => friendlyName ?? id)
      },
      instances: async () => Object.keys((await state()).instances),
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

/** Names for completion from a running node or svc.yaml, read on demand. */
export type Names = { topics: () => string[] } & Record<
  'plugins' | 'capabilities' | 'models' | 'nodes' | 'instances' | 'settings', () => Promise<string[]>>

type Options = readonly (readonly [flags: string, description: string])[]

/** Completions for the last word, which may be empty. Names that cannot be read are left out. */
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
  const flag = before.at(-1)
  if (needsValue(flag, options)) return await valuesOf(flag!, options, names)
  if (typed.startsWith('-')) return options.flatMap(([flags]) => longFlag(flags) ?? [])
  if (plain[0] === 'help' && plain.length === 1) return [...topNames(verbs), ...names.topics()]
  if (verb !== undefined) return await argumentsOf(verb, plain.length - verb.name.split(' ').length, names)
  if (plain.length === 0) return [...topNames(verbs), 'help']
  if (plain.length > 1) return []
  return verbs.filter(({ name }) => name.startsWith(`${plain[0]!} `)).map(({ name }) => name.split(' ')[1]!)
}

/** The verb that the words start with; a two-word verb takes precedence over a one-word verb. */
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

/** Kinds of names to complete, by the names of arguments and option values. */
const KINDS = [
  [/\bmodel\b/, 'models'], [/\binstance\b/, 'instances'], [/\bnode\b/, 'nodes'],
  [/id@version/, 'capabilities']
] as const

async function namesFor (what: string, names: Names): Promise<string[]> {
  const kinds = KINDS.filter(([pattern]) => pattern.test(what))
  return (await Promise.all(kinds.map(([, kind]) => names[kind]().catch(() => [])))).flat()
}

/** Completions for an option value, by the flag and the value's name: `--node <id>`, `--exclude <node>`. */
async function valuesOf (flag: string, options: Options, names: Names): Promise<string[]> {
  const [flags = ''] = options.find(([flags]) => flags.split(/[ ,]+/).includes(flag)) ?? []
  return await namesFor(flags, names)
}

async function argumentsOf (verb: KnownVerb, at: number, names: Names): Promise<string[]> {
  const args = verb.args?.split(' ') ?? []
  const last = args.at(-1)
  const what = args[at] ?? (last?.includes('...') === true ? last : '')
  const found = await namesFor(what, names)
  if (at > 0 || found.length > 0) return found
  if (verb.name.startsWith('plugin ') && verb.name !== 'plugin new' && verb.args !== undefined) {
    return await names.plugins().catch(() => [])
  }
  if (verb.name.startsWith('config ') && verb.args !== undefined) {
    return await names.settings().catch(() => [])
  }
  return verb.name === 'completion' ? SHELLS : []
}

/** Shells with a completion script, which calls `svc complete-words` with the words up to the cursor. */
const SHELLS = ['bash', 'zsh', 'fish']

import { isModelId } from '../../../kernel/cli/index.js'
import { counted, figures, isKnownWord, slipOf } from './words.js'
import type { Word } from './words.js'

/** A node by its id of this start and its name. */
export interface NamedNode { readonly nodeId: string, readonly name: string }

/** The names that a question may have in it, and the time. */
export interface World {
  readonly models: readonly string[]
  readonly nodes: readonly NamedNode[]
  /** The models of instances, by the id of the instance. */
  readonly instances: Readonly<Record<string, string>>
  /** Id of the master, null where none is known. */
  readonly master: string | null
  /** Id of the node that is asked. */
  readonly local: string | null
  /** Wall time, ms since 1970, and what the node's clock is ahead of UTC, minutes. */
  readonly nowMs: number
  readonly zoneMin: number
  /** Plugins that are on at the node that is asked. */
  readonly plugins: readonly string[]
}

/** What a word of the question names. */
export interface Named<T> {
  readonly value: T
  /** The words that name it, by their index. */
  readonly at: readonly number[]
  /** False where it is not known, or another could be meant. */
  readonly sure: boolean
  /** Others that the same words could name. */
  readonly others: readonly string[]
}

/** Words with a stroke that are no models. */
const NO_MODELS = [
  /^(?:and\/or|yes\/no|on\/off|up\/down|in\/out|tts\/chat|chat\/tts|n\/a|either\/or|\d+\/\d+)$/,
  /^(?:v1|api|etc|var|tmp|home|usr|opt|root|dev|proc|store|admin|models|state|cluster)\//
]

/** The models of a question, in the order of its words. */
export function modelsIn (words: readonly Word[], { models, instances }: World): Named<string>[] {
  const found: Named<string>[] = []
  for (let i = 0; i < words.length; i++) {
    const pair = i + 1 < words.length ? `${words[i]!.low}-${words[i + 1]!.low}` : null
    const two = pair === null ? undefined : lastPart(pair, models)
    if (two !== undefined && !isKnownWord(words[i]!.low)) found.push({ ...two, at: [i, i++ + 1] })
    else {
      const one = modelOf(words[i]!, models, instances)
      if (one !== undefined) found.push({ ...one, at: [i] })
    }
  }
  return found
}

type Unplaced = Omit<Named<string>, 'at'>

function modelOf (
  { low, text }: Word, models: readonly string[], instances: World['instances']
): Unplaced | undefined {
  const exact = models.find((id) => id.toLowerCase() === low)
  if (exact !== undefined) return certain(exact)
  const [, ofInstance] = Object.entries(instances).find(([id]) => isIdOf(low, id)) ?? []
  if (ofInstance !== undefined) return certain(ofInstance)
  if (text.includes('/')) {
    const named = isModelId(text) && !NO_MODELS.some((one) => one.test(low))
    return named ? withSlash(text, models) : undefined
  }
  return lastPart(low, models) ?? (isKnownWord(low) ? undefined : partOf(low, models) ?? slip(low, models))
}

const certain = (value: string): Unplaced => ({ value, sure: true, others: [] })

/** An id in full that no model has: one that is nearly the same, else as it was asked. */
function withSlash (text: string, models: readonly string[]): Unplaced {
  const low = new Map(models.map((id) => [id.toLowerCase(), id]))
  const meant = slipOf(text.toLowerCase(), low.keys())
  return meant === undefined ? { value: text, sure: true, others: [] } : certain(low.get(meant)!)
}

/** A model by what is behind the stroke. */
function lastPart (low: string, models: readonly string[]): Unplaced | undefined {
  return oneOf(models.filter((id) => tail(id) === low))
}

/** A model by one of the words of its name: `qwen3`, and `qwen` too. */
function partOf (low: string, models: readonly string[]): Unplaced | undefined {
  if (low.length < 3) return undefined
  const parts = (id: string): string[] => id.toLowerCase().split(/[-_./:]+/)
  const begins = (id: string): boolean => tail(id).startsWith(low) &&
    (figures(low) === '' || !/\d/.test(tail(id)[low.length]!))
  return oneOf(models.filter((id) => parts(id).includes(low))) ?? oneOf(models.filter(begins))
}

function slip (low: string, models: readonly string[]): Unplaced | undefined {
  const meant = counted(low) === low ? slipOf(low, models.map(tail)) : undefined
  return meant === undefined ? undefined : lastPart(meant, models)
}

const tail = (id: string): string => id.toLowerCase().split('/').at(-1)!

function oneOf (ids: readonly string[]): Unplaced | undefined {
  const [value, ...others] = ids
  return value === undefined ? undefined : { value, sure: others.length === 0, others }
}

const isIdOf = (low: string, id: string): boolean =>
  low.length >= 8 && /^[0-9a-f-]+$/.test(low) && id.toLowerCase().startsWith(low)

/** Words before the name of a node. */
const BEFORE = /^(node|machine|host|server|computer|box)$/

/** Names that are of nodes, known or not. */
const NUMBERED = /^(?:n|node|host|machine|server|box|pc|worker)-?\d{1,3}$/

/** The nodes of a question, in the order of its words. A name like `node7` counts, known or not. */
export function nodesIn (words: readonly Word[], { nodes }: World): Named<NamedNode>[] {
  const found: Named<NamedNode>[] = []
  for (let i = 0; i < words.length; i++) {
    const [low, before] = [words[i]!.low, words[i - 1]?.low ?? '']
    const joined = `${low}${words[i + 1]?.low ?? ''}`
    const numbered = BEFORE.test(low) && /^\d{1,3}$/.test(words[i + 1]?.low ?? '')
    const two = numbered ? nodeOf(joined, nodes) ?? nodeOf(`${low}-${words[i + 1]!.low}`, nodes) : undefined
    if (numbered) {
      const value = two ?? { nodeId: joined, name: joined }
      found.push({ value, at: [i, ++i], sure: true, others: [] })
    } else {
      const one = nodeOf(low, nodes) ?? (NUMBERED.test(low) ? unknownNode(words[i]!) : undefined) ??
        slipNode(low, nodes) ?? (BEFORE.test(before) ? strangeNode(words[i]!) : undefined)
      if (one !== undefined) found.push({ value: one, at: [i], sure: true, others: [] })
    }
  }
  return found
}

function nodeOf (low: string, nodes: readonly NamedNode[]): NamedNode | undefined {
  return nodes.find(({ name }) => name.toLowerCase() === low) ??
    nodes.find(({ nodeId }) => isIdOf(low, nodeId)) ??
    nodes.find(({ name }) => name.toLowerCase().split('.')[0] === low && name.includes('.'))
}

function slipNode (low: string, nodes: readonly NamedNode[]): NamedNode | undefined {
  if (isKnownWord(low) || counted(low) !== low) return undefined
  const meant = slipOf(low, nodes.map(({ name }) => name.toLowerCase()))
  return nodes.find(({ name }) => name.toLowerCase() === meant)
}

const unknownNode = ({ text }: Word): NamedNode => ({ nodeId: text, name: text })

/** "node attic": a name after such a word, unless it is a common word. */
function strangeNode (word: Word): NamedNode | undefined {
  const { low } = word
  const common = isKnownWord(low) || counted(low) !== low || low.includes('/')
  return common || !/^[a-z][a-z0-9.-]{2,40}$/.test(low) || !/[\d-]/.test(low) ? undefined : unknownNode(word)
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/i

/** The ids of requests: each a UUID, or one with the prefix that an API puts before it. */
export function requestsIn (words: readonly Word[], taken: ReadonlySet<number>): Named<string>[] {
  return words.flatMap(({ text }, i) => {
    const id = taken.has(i) ? undefined : UUID.exec(text)?.[0]
    return id === undefined ? [] : [{ value: id, at: [i], sure: true, others: [] }]
  })
}

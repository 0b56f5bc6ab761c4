import { isModelId } from '../../../kernel/cli/index.js'
import { counted, figures, isKnownWord, Near, type Word } from './words.js'

export interface NamedNode { readonly nodeId: string, readonly name: string }

/** The names that a question may contain, and the current time. */
export interface World {
  readonly models: readonly string[]
  /** Tasks such as `tts` by model. */
  readonly tasks: Readonly<Record<string, readonly string[]>>
  readonly nodes: readonly NamedNode[]
  /** The models of instances, by instance id. */
  readonly instances: Readonly<Record<string, string>>
  /** Id of the master; null if unknown. */
  readonly master: string | null
  /** Id of the node that receives the question. */
  readonly local: string | null
  /** Unix time in ms, and the UTC offset of the node's time zone in minutes. */
  readonly nowMs: number
  readonly zoneMin: number
}

/** A model, node or request that the question names. */
export interface Named<T> {
  readonly value: T
  /** Indices of the words in the question that name the model, node or request. */
  readonly at: readonly number[]
  /** False if the name is unknown or ambiguous. */
  readonly sure: boolean
  /** Other models or nodes that the same words could name. */
  readonly others: readonly string[]
}

/** Words with a slash that are not model ids. */
const NO_MODELS = [
  /^(?:and\/or|yes\/no|on\/off|up\/down|in\/out|tts\/chat|chat\/tts|n\/a|either\/or|\d+\/\d+)$/,
  /^(?:v1|api|etc|var|tmp|home|usr|opt|root|dev|proc|store|admin|models|state|cluster)\//
]

/** Indexes the names, since a question may have a thousand words and a cluster as many names. */
export class Names {
  /** Models by id, by the part after the slash, and by each word of the name. */
  readonly #ids: ReadonlyMap<string, readonly string[]>
  readonly #tails: ReadonlyMap<string, readonly string[]>
  readonly #begins: readonly string[]
  readonly #parts: ReadonlyMap<string, readonly string[]>
  readonly #nearIds: Near
  readonly #nearTails: Near
  readonly #instances: readonly (readonly [id: string, model: string])[]
  readonly #nodes: readonly NamedNode[]
  /** Nodes by name, and by the first label of a host name. */
  readonly #names: ReadonlyMap<string, readonly NamedNode[]>
  readonly #hosts: ReadonlyMap<string, readonly NamedNode[]>
  readonly #nearNames: Near
  readonly #tasks: World['tasks']

  constructor ({ models, tasks, instances, nodes }: World) {
    this.#tasks = tasks
    this.#ids = grouped(models, (id) => [id.toLowerCase()])
    this.#tails = grouped(models, (id) => [tail(id)])
    this.#begins = [...this.#tails.keys()]
    this.#parts = grouped(models, (id) => id.toLowerCase().split(/[-_./:]+/))
    this.#nearIds = new Near(this.#ids.keys())
    this.#nearTails = new Near(this.#tails.keys())
    this.#instances = Object.entries(instances)
    this.#nodes = nodes
    this.#names = grouped(nodes, ({ name }) => [name.toLowerCase()])
    this.#hosts = grouped(nodes, ({ name }) => name.includes('.') ? [name.toLowerCase().split('.')[0]!] : [])
    this.#nearNames = new Near(this.#names.keys())
  }

  /** The models that a question names, in the order of its words. */
  modelsIn (words: readonly Word[]): Named<string>[] {
    const found: Named<string>[] = []
    for (let i = 0; i < words.length; i++) {
      const pair = i + 1 < words.length ? `${words[i]!.low}-${words[i + 1]!.low}` : null
      const two = pair === null ? undefined : this.#lastPart(pair)
      if (two !== undefined && !isKnownWord(words[i]!.low)) found.push({ ...two, at: [i, i++ + 1] })
      else {
        const one = this.#modelOf(words[i]!)
        if (one !== undefined) found.push({ ...one, at: [i] })
      }
    }
    return found
  }

  #modelOf ({ low, text }: Word): Unplaced | undefined {
    const [exact] = this.#ids.get(low) ?? []
    if (exact !== undefined) return certain(exact)
    const [, ofInstance] = this.#instances.find(([id]) => isIdOf(low, id)) ?? []
    if (ofInstance !== undefined) return certain(ofInstance)
    if (text.includes('/')) {
      const named = isModelId(text) && !NO_MODELS.some((one) => one.test(low))
      return named ? this.#withSlash(text) : undefined
    }
    return this.#lastPart(low) ?? (isKnownWord(low) ? undefined : this.#partOf(low) ?? this.#slip(low))
  }

  /** For an id that no model has: the model id with the most similar spelling, else the id itself. */
  #withSlash (text: string): Unplaced {
    const meant = this.#nearIds.slipOf(text.toLowerCase())
    return certain(meant === undefined ? text : this.#ids.get(meant)!.at(-1)!)
  }

  /** Finds a model by the part of its id after the slash. */
  #lastPart (low: string): Unplaced | undefined { return oneOf(this.#tails.get(low)) }

  /** Finds a model by one word of its name, or by its beginning: `qwen3`, but also `qwen`. */
  #partOf (low: string): Unplaced | undefined {
    if (low.length < 3) return undefined
    const part = oneOf(this.#parts.get(low))
    if (part !== undefined) return part
    const whole = figures(low) !== ''
    return oneOf(this.#begins.filter((name) =>
      name.startsWith(low) && !(whole && /\d/.test(name[low.length]!)))
      .flatMap((name) => this.#tails.get(name)!))
  }

  #slip (low: string): Unplaced | undefined {
    const meant = counted(low) === low ? this.#nearTails.slipOf(low) : undefined
    return meant === undefined ? undefined : this.#lastPart(meant)
  }

  /** The nodes that a question names, in order. A name like `node7` counts even if it is unknown. */
  nodesIn (words: readonly Word[]): Named<NamedNode>[] {
    const found: Named<NamedNode>[] = []
    for (let i = 0; i < words.length; i++) {
      const [low, before] = [words[i]!.low, words[i - 1]?.low ?? '']
      const joined = `${low}${words[i + 1]?.low ?? ''}`
      const numbered = BEFORE.test(low) && /^\d{1,3}$/.test(words[i + 1]?.low ?? '')
      if (numbered) {
        const value = this.#nodeOf(joined) ?? this.#nodeOf(`${low}-${words[i + 1]!.low}`) ??
          { nodeId: joined, name: joined }
        found.push({ value, at: [i, ++i], sure: true, others: [] })
      } else {
        const one = this.#nodeOf(low) ?? (NUMBERED.test(low) ? unknownNode(words[i]!) : undefined) ??
          this.#slipNode(low) ?? (BEFORE.test(before) ? strangeNode(words[i]!) : undefined)
        if (one !== undefined) found.push({ value: one, at: [i], sure: true, others: [] })
      }
    }
    return found
  }

  /** Models that a text means by their task, or by one word of their names: "no audio", "that voice". */
  looseIn (low: string): string[] {
    const task = TASKS.find(([, words]) => words.test(low))?.[0]
    const of = task === undefined ? []
      : Object.entries(this.#tasks).filter(([, tasks]) => tasks.includes(task)).map(([id]) => id)
    const word = /\b(?:that|this|the|my|our) ([a-z]{3,})\b/.exec(low)?.[1] ?? ''
    return of.length > 0 ? of : [...this.#parts.get(word) ?? []]
  }

  #nodeOf (low: string): NamedNode | undefined {
    return this.#names.get(low)?.[0] ?? this.#nodes.find(({ nodeId }) => isIdOf(low, nodeId)) ??
      this.#hosts.get(low)?.[0]
  }

  #slipNode (low: string): NamedNode | undefined {
    if (isKnownWord(low) || counted(low) !== low) return undefined
    return this.#names.get(this.#nearNames.slipOf(low) ?? '')?.[0]
  }
}

const TASKS: readonly (readonly [task: string, words: RegExp])[] = [
  ['tts', /\b(?:tts|speech|audio|spoken|voice|voz|voix|stimme)\b|语音|音声/], ['stt', /\b(?:stt|transcri\w+)\b/],
  ['embeddings', /\bembeddings?\b/], ['chat', /\b(?:llm|chat(?:bot)?)\b|聊天|チャット/]
]

type Unplaced = Omit<Named<string>, 'at'>

/** Groups things by their keys; a thing may have several keys. */
function grouped<T> (things: readonly T[], keysOf: (thing: T) => readonly string[]): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const thing of things) {
    for (const key of new Set(keysOf(thing))) {
      const group = groups.get(key)
      if (group === undefined) groups.set(key, [thing])
      else group.push(thing)
    }
  }
  return groups
}

const certain = (value: string): Unplaced => ({ value, sure: true, others: [] })

const tail = (id: string): string => id.toLowerCase().split('/').at(-1)!

function oneOf (ids: readonly string[] = []): Unplaced | undefined {
  const [value, ...others] = ids
  return value === undefined ? undefined : { value, sure: others.length === 0, others }
}

const isIdOf = (low: string, id: string): boolean =>
  low.length >= 8 && /^[0-9a-f-]+$/.test(low) && id.toLowerCase().startsWith(low)

/** Words that announce a node name, as in "node attic". */
const BEFORE = /^(node|machine|host|server|computer|box)$/

/** Words that count as node names even if no such node exists, such as `node7`. */
const NUMBERED = /^(?:n|node|host|machine|server|box|pc|worker)-?\d{1,3}$/

const unknownNode = ({ text }: Word): NamedNode => ({ nodeId: text, name: text })

/** The word after "node", "machine" and the like as an unknown node, unless it is a common word. */
function strangeNode (word: Word): NamedNode | undefined {
  const { low } = word
  const common = isKnownWord(low) || counted(low) !== low || low.includes('/')
  return common || !/^[a-z][a-z0-9.-]{2,40}$/.test(low) || !/[\d-]/.test(low) ? undefined : unknownNode(word)
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/i

/** The request ids in a question: UUIDs, possibly after an API's prefix. */
export function requestsIn (words: readonly Word[], taken: ReadonlySet<number>): Named<string>[] {
  return words.flatMap(({ text }, i) => {
    const id = taken.has(i) ? undefined : UUID.exec(text)?.[0]
    return id === undefined ? [] : [{ value: id, at: [i], sure: true, others: [] }]
  })
}

import { schemaChecker } from '../../../kernel/api/validate.js'
import { askMember, type NodeView, type Section } from '../../../kernel/index.js'
import { sections as declared } from '../declarations.js'
import type { StagingContext } from '../manifest.js'
import { NODE_CALLER } from '../peers/sources.js'
import { failureOf } from '../transfer/job.js'
import { publishEntries } from './catalogue.js'

/** Sections with one entry per model, in the order in which they get space in the document. */
const KINDS = ['modelCopies', 'storeModels'] as const
type Kind = typeof KINDS[number]

export type ModelEntries = Record<Kind, ReadonlyMap<string, unknown>>
type Rest = Record<Kind, Map<string, unknown>>

/** Maximum bytes of model entries in this node's document; the rest is for other sections. */
const DOCUMENT_BYTES = 96 * 1024
/** Bytes that an entry takes in the document besides its key and value. */
const ENTRY_BYTES = 24
/** Size limit in bytes for a list, enough for about 25,000 models. */
const LIST_BYTES = 16 * 1024 * 1024
const ASK_MS = 15_000
/** Retry interval in ms for lists that could not be fetched. */
const AGAIN_MS = 5000

const problemOf = Object.fromEntries(KINDS.map((kind) => [kind, schemaChecker(declared[kind].value)])) as
  Record<Kind, (value: unknown) => string | null>

const emptyRest = (): Rest => ({ modelCopies: new Map(), storeModels: new Map() })

/**
 * Publishes this node's models and reads those of other nodes. A node's document is small, so entries that do
 * not fit go to a list: the document has only the list's version, and other nodes fetch it directly.
 */
export class ModelLists {
  /** The given context, except that its sections include entries fetched from the lists of other nodes. */
  readonly ctx: StagingContext
  readonly #given: StagingContext
  readonly #lists = new Map<string, { version: number, rest: Rest }>()
  readonly #asking = new Set<string>()
  #sent = { version: 0, rest: '{}' }

  constructor (given: StagingContext) {
    this.#given = given
    const whole = <T>(kind: Kind): Section<T> => this.#whole<T>(kind)
    this.ctx = {
      ...given,
      sections: { ...given.sections, modelCopies: whole('modelCopies'), storeModels: whole('storeModels') }
    }
    given.sections.modelLists.observe(() => { this.#fetch() })
    given.effect('lists of models', given.clock.every(AGAIN_MS, () => { this.#fetch() }))
  }

  /** Publishes the entries in the document and the list; returns how many fit into neither. */
  publish (wanted: ModelEntries): number {
    const { sections, node: { nodeId } } = this.#given
    const rest = emptyRest()
    let [room, left, unpublished] = [DOCUMENT_BYTES, LIST_BYTES, 0]
    const listed = Object.fromEntries(KINDS.map((kind) => {
      const fitting = new Map<string, unknown>()
      const spilled: [string, unknown][] = []
      for (const [key, value] of wanted[kind]) {
        const bytes = Buffer.byteLength(key + JSON.stringify(value)) + ENTRY_BYTES
        if (bytes <= room) {
          room -= bytes
          fitting.set(key, value)
          continue
        }
        rest[kind].set(key, value)
        left -= bytes
        if (left > 0) spilled.push([key, value])
        else unpublished++
      }
      for (const key of publishEntries(sections[kind] as Section<unknown>, nodeId, fitting)) {
        rest[kind].set(key, fitting.get(key))
        spilled.push([key, fitting.get(key)])
      }
      return [kind, Object.fromEntries(spilled)]
    }))
    this.#offer(rest, JSON.stringify(listed))
    return unpublished
  }

  #offer (rest: Rest, text: string): void {
    const { sections, node: { nodeId } } = this.#given
    const count = KINDS.reduce((sum, kind) => sum + rest[kind].size, 0)
    if (text !== this.#sent.rest) this.#sent = { version: this.#sent.version + 1, rest: text }
    const { version } = this.#sent
    this.#lists.set(nodeId, { version, rest })
    publishEntries(sections.modelLists, nodeId, new Map(count === 0 ? [] : [['rest', { version, count }]]))
  }

  answer (): unknown {
    const { version, rest } = this.#sent
    return { version, rest: JSON.parse(rest) as unknown }
  }

  #whole<T> (kind: Kind): Section<T> {
    const { sections: { modelLists, ...sections }, node } = this.#given
    const section = sections[kind] as unknown as Section<T>
    const restOf = (nodeId: string): ReadonlyMap<string, unknown> | undefined =>
      modelLists.get('rest', nodeId) === undefined ? undefined : this.#lists.get(nodeId)?.rest[kind]
    return {
      ...section,
      get: (key, nodeId = node.nodeId) =>
        section.get(key, nodeId) ?? restOf(nodeId)?.get(key) as T | undefined,
      * entries () {
        yield * section.entries()
        for (const { nodeId } of modelLists.entries()) {
          for (const [key, value] of restOf(nodeId) ?? []) {
            if (section.get(key, nodeId) === undefined) yield { nodeId, key, value: value as T }
          }
        }
      }
    }
  }

  #fetch (): void {
    const { sections, deps: { cluster }, log } = this.#given
    for (const nodeId of this.#lists.keys()) {
      if (cluster.resolve(nodeId) === undefined) this.#lists.delete(nodeId)
    }
    for (const { nodeId, value: { version } } of sections.modelLists.entries()) {
      const node = cluster.resolve(nodeId)
      const known = this.#lists.get(nodeId)?.version ?? 0
      if (node === undefined || node.self || known >= version || this.#asking.has(nodeId)) continue
      this.#asking.add(nodeId)
      this.#ask(node).then(() => {
        this.#asking.delete(nodeId)
        this.#fetch()
      }, (error: unknown) => {
        this.#asking.delete(nodeId)
        log.warn({ node: node.name, error: failureOf(error).message }, 'fetching a list of models failed')
      })
    }
  }

  async #ask (node: NodeView): Promise<void> {
    const { deps: { cluster }, clock } = this.#given
    const text = await askMember({ cluster, clock }, node, {
      path: '/models/rest', caller: NODE_CALLER, signal: new AbortController().signal, ms: ASK_MS,
      bytes: LIST_BYTES + 1024
    })
    const { version, rest: said } = JSON.parse(text) as
      { version: number, rest: Partial<Record<Kind, Record<string, unknown>>> }
    const rest = emptyRest()
    for (const kind of KINDS) {
      for (const [key, value] of Object.entries(said[kind] ?? {})) {
        if (problemOf[kind](value) === null) rest[kind].set(key, value)
      }
    }
    this.#lists.set(node.nodeId, { version, rest })
  }
}

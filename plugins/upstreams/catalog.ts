/** The models of all servers and nodes, and the chains of this node, as virtual models. */
import { isDeepStrictEqual } from 'node:util'
import { kernelError, type Context, type EngineChunk, type EngineTask, type ModelCard, type NodeView, type SvcError } from '../../kernel/index.js'
import { runTask, type RouteQuery, type VirtualModel } from '../runners/service.js'
import { upstreamError } from './errors.js'
import { firstAnswer, type Attempt } from './fallback.js'
import { openAt } from './remote.js'
import type { manifest } from './manifest.js'
import type { UpstreamServer } from './server.js'
import type { Chain, Entry } from './settings.js'

/** Limit on the models that a node offers to the others. */
const MAX_OFFERED = 400
const MAX_PROBLEM = 400

interface Record { context: number, weight: number, problem: string | null }
type Opens = (task: EngineTask, query: RouteQuery, signal: AbortSignal) => AsyncIterable<EngineChunk>
/** A server of this node, or another node, that answers with a model. */
interface Source extends Record { name: string, open: Opens }

export class Catalog {
  readonly #ctx: Context<typeof manifest>
  readonly #servers: readonly UpstreamServer[]
  readonly #chains: Readonly<{ [name: string]: Chain }>
  readonly #registered = new Map<string, () => void>()

  constructor (
    ctx: Context<typeof manifest>, servers: readonly UpstreamServer[], chains: Readonly<{ [name: string]: Chain }>
  ) {
    this.#ctx = ctx
    this.#servers = servers
    this.#chains = chains
    for (const [name, chain] of Object.entries(chains)) {
      ctx.effect(`chain ${name}`, ctx.deps.runners.virtual(name, this.#chainModel(name, chain)))
    }
    ctx.effect('models of servers', () => { for (const end of this.#registered.values()) end() })
  }

  /** Offers the models of this node to the others, and registers those of all nodes. */
  update (): void {
    const { sections: { models: section }, node, deps: { runners } } = this.#ctx
    const own = this.#servers.flatMap(({ models, problem, settings: { name, missing } }) =>
      missing !== null ? [] : [...models].map(([id, { context, weight }]) => [id, {
        context, weight, problem: problem === null ? null : `${name}: ${problem.message}`.slice(0, MAX_PROBLEM)
      }] as const))
    const offered = new Map(own.slice(0, MAX_OFFERED))
    const before = [...section.entries()].filter(({ nodeId }) => nodeId === node.nodeId)
    for (const { key } of before) if (!offered.has(key)) section.remove(key)
    for (const [id, record] of offered) if (!isDeepStrictEqual(section.get(id), record)) section.put(id, record)
    const known = new Set([...section.entries()].map(({ key }) => key))
    for (const { models } of this.#servers) for (const id of models.keys()) known.add(id)
    for (const [id, end] of this.#registered) {
      if (known.has(id)) continue
      end()
      this.#registered.delete(id)
    }
    for (const id of known) {
      if (this.#registered.has(id) || Object.hasOwn(this.#chains, id)) continue
      this.#registered.set(id, runners.virtual(id, this.#model(id)))
    }
  }

  /** Answers with a server of this node. Throws `no_instance`, and errors of the server. */
  openHere (modelId: string, task: EngineTask, query: RouteQuery, signal: AbortSignal): AsyncIterable<EngineChunk> {
    const own = this.#own(modelId)
    if (own.length > 0) return own[0]!.open(task, query, signal)
    throw kernelError('no_instance', `This node has no server for ${modelId}.`)
  }

  #own (modelId: string): Source[] {
    return this.#servers.flatMap((server) => {
      const entry = server.models.get(modelId)
      const { settings: { name }, problem } = server
      return entry === undefined ? [] : [{
        ...recordOf(entry), name,
        problem: problem === null ? null : `${name} cannot be used since ${problem.since}: ${problem.message}`,
        open: (task, query, signal) => server.open(modelId, entry, task, query, signal)
      } satisfies Source]
    })
  }

  #elsewhere (modelId: string): Source[] {
    const { sections: { models }, deps: { cluster }, clock } = this.#ctx
    return [...models.entries()].flatMap(({ nodeId, key, value }) => {
      const node = key === modelId ? cluster.resolve(nodeId) : undefined
      return node?.live !== true || node.self ? [] : [{
        ...value, name: node.name, problem: value.problem === null ? null : `node ${node.name}: ${value.problem}`,
        open: (task, query, signal) => openAt({ cluster, clock }, node, modelId, task, query, signal)
      } satisfies Source]
    })
  }

  #sources (modelId: string): Source[] { return [...this.#own(modelId), ...this.#elsewhere(modelId)] }

  #refusal (modelId: string): SvcError | null {
    const all = this.#sources(modelId)
    if (all.some(({ problem }) => problem === null)) return null
    return upstreamError('upstream_unavailable', `${modelId}: ${all[0]?.problem ?? 'no node has a server for it'}.`)
  }

  #model (modelId: string): VirtualModel {
    return {
      card: () => {
        const [first] = this.#sources(modelId)
        return first && cardOf(modelId, first.context, 'Answered by another server.')
      },
      refusal: () => this.#refusal(modelId),
      open: (task, query, signal) => this.#first(modelId, {}, query, signal,
        this.#sources(modelId).filter(({ problem }) => problem === null).map(({ name, open }) =>
          ({ name, open: (until) => open(task, query, until) })))
    }
  }

  #chainModel (name: string, { try: targets, spread = false, when = {} }: Chain): VirtualModel {
    const { deps: { runners } } = this.#ctx
    const conditions = {
      queue: when.queue,
      firstMs: when.first_token_seconds === undefined ? undefined : when.first_token_seconds * 1000
    }
    const attempt = (modelId: string, task: EngineTask, query: RouteQuery): Attempt => ({
      name: modelId, model: modelId,
      open: (signal) => runTask(runners, { modelId, capability: query.capability, task },
        { ...query, signal, retry: true, setHeader: () => {} })
    })
    return {
      card: () => cardOf(name, Math.min(...targets.flatMap((id) => runners.card(id)?.contextLength ?? [])),
        `Answered by the first of these that can: ${targets.join(', ')}.`),
      refusal: () => {
        const refusals = targets.map((id) => this.#registered.has(id) ? this.#refusal(id) : null)
        return refusals.includes(null) ? null : refusals[0]!
      },
      open: (task, query, signal) => this.#first(name, conditions, query, signal,
        (spread ? this.#shuffled(targets) : targets).map((id) => attempt(id, task, query)))
    }
  }

  /** A random order in which a model is first as often as its weight says (Efraimidis and Spirakis, 2006). */
  #shuffled (targets: readonly string[]): string[] {
    const keys = new Map(targets.map((id) =>
      [id, -Math.log(1 - Math.random()) / (this.#sources(id)[0]?.weight ?? 1)]))
    return targets.toSorted((a, b) => keys.get(a)! - keys.get(b)!)
  }

  #first (
    modelId: string, conditions: Parameters<typeof firstAnswer>[1], { trace }: RouteQuery, signal: AbortSignal,
    attempts: Attempt[]
  ): AsyncIterable<EngineChunk> {
    const { clock, log } = this.#ctx
    return firstAnswer(attempts, conditions, clock, signal, ({ name }, reason) => {
      trace?.note({ [`passed ${name}`]: reason })
      log.info({ model: modelId, passed: name, reason }, 'another model or server is tried')
    })
  }
}

const recordOf = ({ context, weight }: Entry): Omit<Record, 'problem'> => ({ context, weight })

function cardOf (modelId: string, context: number, description: string): ModelCard {
  return {
    modelId, revision: '1', title: modelId, description, tasks: ['chat'], family: 'upstream', engine: 'upstream',
    backends: [], files: [], totalBytes: 0, nLayers: 0, hiddenSize: 0, heads: 0, kvHeads: 0, headSize: 0,
    contextLength: Number.isFinite(context) ? context : 8192, supportsTensor: false, companions: [],
    licence: '', languages: [], quantization: null, voices: [], defaults: {},
    support: { tools: 'passed on', images: 'passed on' }
  }
}

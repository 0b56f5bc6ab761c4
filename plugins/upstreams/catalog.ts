/** The models of all servers and nodes, and the chains of this node, as virtual models. */
import { isDeepStrictEqual } from 'node:util'
import {
  kernelError, type Context, type EngineChunk, type EngineTask, type ModelCard, type SvcError
} from '../../kernel/index.js'
import { runTask, type RouteQuery, type VirtualModel } from '../runners/service.js'
import { upstreamError } from './errors.js'
import { firstAnswer, type Attempt, type Conditions } from './fallback.js'
import { openAt } from './remote.js'
import { DEFAULT_CONTEXT, type Chain } from './settings.js'
import type { manifest } from './manifest.js'
import type { UpstreamServer } from './server.js'

/** Limit on the models that a node offers to the others. */
const MAX_OFFERED = 400
const MAX_PROBLEM = 400

/** A server of this node, or another node, that answers with a model. */
interface Source {
  name: string, context: number, weight: number, problem: string | null
  open (task: EngineTask, query: RouteQuery, signal: AbortSignal): AsyncIterable<EngineChunk>
}

export class Catalog {
  readonly #ctx: Context<typeof manifest>
  readonly #servers: readonly UpstreamServer[]
  readonly #chains: Readonly<Record<string, Chain>>
  readonly #random: () => number
  readonly #registered = new Map<string, () => void>()

  constructor (
    ctx: Context<typeof manifest>, servers: readonly UpstreamServer[],
    chains: Readonly<Record<string, Chain>>, random: () => number
  ) {
    this.#ctx = ctx
    this.#random = random
    this.#servers = servers
    this.#chains = chains
    for (const [name, chain] of Object.entries(chains)) {
      ctx.effect(`chain ${name}`, ctx.deps.runners.virtual(name, this.#chain(name, chain)))
    }
    ctx.effect('models of servers', () => { for (const end of this.#registered.values()) end() })
  }

  /** Offers the models of this node to the others, and registers those of all nodes. */
  update (): void {
    const { sections: { models: section }, node: { nodeId }, deps: { runners } } = this.#ctx
    const own = new Set(this.#servers.flatMap(({ models }) => [...models.keys()]))
    const keyed = this.#servers.filter(({ settings: { missing } }) => missing === null)
    const offered = new Set(keyed.flatMap(({ models }) => [...models.keys()]).slice(0, MAX_OFFERED))
    for (const { key, nodeId: of } of [...section.entries()]) {
      if (of === nodeId && !offered.has(key)) section.remove(key)
    }
    for (const id of offered) {
      const { context, weight, problem } = this.#own(id)[0]!
      const record = { context, weight, problem: problem?.slice(0, MAX_PROBLEM) ?? null }
      if (!isDeepStrictEqual(section.get(id), record)) section.put(id, record)
    }
    const known = new Set([...own, ...[...section.entries()].map(({ key }) => key)])
    for (const [id, end] of this.#registered) if (!known.has(id) && this.#registered.delete(id)) end()
    for (const id of known) {
      if (this.#registered.has(id) || Object.hasOwn(this.#chains, id)) continue
      this.#registered.set(id, runners.virtual(id, this.#model(id)))
    }
  }

  /** Answers with a server of this node. Throws `no_instance`, and errors of the server. */
  openHere (modelId: string, ...asked: Parameters<Source['open']>): AsyncIterable<EngineChunk> {
    const [own] = this.#own(modelId)
    if (own === undefined) throw kernelError('no_instance', `This node has no server for ${modelId}.`)
    return own.open(...asked)
  }

  #own (modelId: string): Source[] {
    return this.#servers.flatMap((server): Source[] => {
      const entry = server.models.get(modelId)
      const { settings: { name }, problem } = server
      return entry === undefined ? [] : [{
        name, context: entry.context, weight: entry.weight,
        problem: problem && `${name} cannot be used since ${problem.since}: ${problem.message}`,
        open: (...asked) => server.open(modelId, entry, ...asked)
      }]
    })
  }

  #sources (modelId: string): Source[] {
    const { sections: { models }, deps: { cluster }, clock } = this.#ctx
    const others = cluster.nodes().filter(({ live, self }) => live && !self)
    return [...this.#own(modelId), ...others.flatMap((node): Source[] => {
      const value = models.get(modelId, node.nodeId)
      return value === undefined ? [] : [{
        ...value, name: node.name, problem: value.problem && `at node ${node.name}, ${value.problem}`,
        open: (...asked) => openAt({ cluster, clock }, node, modelId, ...asked)
      }]
    })]
  }

  #refusal (modelId: string): SvcError | null {
    const all = this.#sources(modelId)
    if (all.some(({ problem }) => problem === null)) return null
    const why = all[0]?.problem ?? 'no node has a server for it'
    return upstreamError('upstream_unavailable', `${modelId}: ${why}.`)
  }

  #model (modelId: string): VirtualModel {
    return {
      yields: true,
      card: () => {
        const [source] = this.#sources(modelId)
        return source && cardOf(modelId, source.context, 'Answered by another server.')
      },
      refusal: () => this.#refusal(modelId),
      open: (task, query, signal) => this.#first(modelId, {}, query, signal,
        this.#sources(modelId).filter(({ problem }) => problem === null).map(({ name, open }) =>
          ({ name, open: (until) => open(task, query, until) })))
    }
  }

  #chain (name: string, { try: targets, spread = false, when = {} }: Chain): VirtualModel {
    const { runners } = this.#ctx.deps
    const { queue, first_token_seconds: seconds } = when
    const conditions = { queue, firstMs: seconds && seconds * 1000 }
    const attempt = (model: string, task: EngineTask, query: RouteQuery): Attempt => ({
      name: model, model,
      open: (signal) => runTask(runners, { modelId: model, capability: query.capability, task },
        // Whoever may use the chain may use what the operator has put into it.
        {
          ...query, caller: { ...query.caller, models: undefined }, signal, retry: true, setHeader: () => {}
        })
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
      [id, -Math.log(1 - this.#random()) / (this.#sources(id)[0]?.weight ?? 1)]))
    return targets.toSorted((a, b) => keys.get(a)! - keys.get(b)!)
  }

  #first (
    model: string, conditions: Conditions, { trace }: RouteQuery, signal: AbortSignal, attempts: Attempt[]
  ): AsyncIterable<EngineChunk> {
    const { clock, log } = this.#ctx
    return firstAnswer(attempts, conditions, clock, signal, ({ name }, reason) => {
      trace?.note({ [`passed ${name}`]: reason })
      log.info({ model, passed: name, reason }, 'another model or server is tried')
    })
  }
}

function cardOf (modelId: string, context: number, description: string): ModelCard {
  return {
    modelId, revision: '1', title: modelId, description, tasks: ['chat'], family: 'upstream',
    engine: 'upstream', backends: [], files: [], totalBytes: 0, nLayers: 0, hiddenSize: 0, heads: 0,
    kvHeads: 0, headSize: 0, contextLength: Number.isFinite(context) ? context : DEFAULT_CONTEXT,
    supportsTensor: false, companions: [], licence: '', languages: [], quantization: null, voices: [],
    defaults: {}, support: { tools: 'passed on', images: 'passed on' }
  }
}

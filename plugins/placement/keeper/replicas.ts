import type { Instance, PlacementIntent } from '../../runners/service.js'
import { AUTOPLACE, idOf, intentOf, modelOf } from '../place/instance.js'
import { IDLE_SECONDS, type ReplicaPolicy } from '../place/policies.js'
import { serves } from '../progress/progress.js'
import { stays, type Step } from './decide.js'
import type { FitChecks, Situation } from './roles.js'

/** Milliseconds for which too many requests must be open, and between two attempts. */
export const BUSY_MS = 10_000
/** After so many failures of a model within so many ms no instance of it is added. */
const FAILURES_MAX = 2
export const PAUSE_MS = 300_000

export interface ReplicaLoad {
  policies: ReadonlyMap<string, ReplicaPolicy>
  /** Open requests by instance id, waiting or running, from the gossip between nodes. */
  open: ReadonlyMap<string, number>
}

/** The numbers behind a decision about a model. */
interface Numbers { open: number, instances: number, min: number, max: number, targetOpen: number }

/** Adds and removes instances by the policies of their models. Callers pass the time in monotonic ms. */
export class Replicas {
  readonly numbers = new Map<string, Numbers>()
  /** By model: its need, the earliest time of the next step for it, and of the next attempt for any need. */
  readonly #timers = new Map<string, { need: string, at: number, next: number }>()
  /** The time of each recorded failure, by instance id; null before the first pass. */
  #failed: ReadonlyMap<string, number> | null = null

  /** The steps to take at `mono`: for each model at most one instance is added or removed. */
  look (situation: Situation, load: ReplicaLoad, judge: FitChecks, mono: number): Step[] {
    const failed = this.#noteFailures(situation, mono)
    const byModel = new Map<string, Instance[]>()
    for (const one of situation.instances.filter(stays)) {
      byModel.set(modelOf(one), [...byModel.get(modelOf(one)) ?? [], one])
    }
    return [...load.policies].flatMap(([modelId, policy]) => {
      const there = byModel.get(modelId) ?? []
      const serving = there.filter((one) => serves(situation, one))
      const openAt = (one: Instance): number => load.open.get(idOf(one)) ?? 0
      const { min, max, target_open: targetOpen, idle_seconds: idle = IDLE_SECONDS } = policy
      const [instances, open] = [there.length, serving.reduce((sum, one) => sum + openAt(one), 0)]
      this.numbers.set(modelId, { open, instances, min, max, targetOpen })
      const loads = there.some((one) => !serving.includes(one) && !failed.has(idOf(one))) ||
        [...situation.waiting.values()].some((entry) => entry.modelId === modelId)
      const spare = instances > max || open <= targetOpen * (serving.length - 1)
      const [need, wait] = loads || situation.stopped.has(modelId) ? ['none', Infinity]
        : instances < min ? ['short', 0]
          : instances < max && open > targetOpen * serving.length ? ['busy', BUSY_MS]
            : instances > min && spare ? ['spare', idle * 1000] : ['none', Infinity]
      if (!this.#isDue(modelId, `${need} ${instances}`, wait, mono)) return []
      if (need !== 'spare') return this.#add(situation, judge, modelId, mono, there[0])
      const [newest] = serving.filter((one) => replicaOf(one) !== '' && openAt(one) === 0)
        .sort((a, b) => replicaOf(b).localeCompare(replicaOf(a)))
      return newest === undefined ? [] : [{ do: 'retire', id: idOf(newest), modelId }]
    })
  }

  #add (
    { now, failures }: Situation, judge: FitChecks, modelId: string, mono: number, first?: Instance
  ): Step[] {
    const failed = failures.filter((one) => one.modelId === modelId &&
      mono - this.#failed!.get(one.instanceId)! < PAUSE_MS)
    const { moves: _, systemRole: __, ...like } = first === undefined ? AUTOPLACE : intentOf(first)
    const since = new Date(now).toISOString()
    const intent: PlacementIntent =
      { ...like, origin: 'request', ttlSeconds: null, replaces: null, failedOn: [], replica: since }
    if (failed.length >= FAILURES_MAX || !judge.fits(modelId, intent)) return []
    const entry = {
      modelId, intent: { ...intent, failedOn: failed.flatMap(({ affectedNodeIds }) => affectedNodeIds) },
      replaces: null, since, reason: 'replica', message: 'The policy of its model adds it.'
    }
    const id = judge.newId()
    return [{ do: 'wait', id, entry }, { do: 'place', id, entry }]
  }

  /** True once the need has lasted for `wait` ms, then every BUSY_MS. */
  #isDue (modelId: string, need: string, wait: number, mono: number): boolean {
    const last = this.#timers.get(modelId)
    const next = last?.next ?? 0
    const at = last?.need === need ? last.at : Math.max(mono + wait, next)
    const due = mono >= at
    this.#timers.set(modelId, due ? { need, at: mono + BUSY_MS, next: mono + BUSY_MS } : { need, at, next })
    return due
  }

  /** Counts failures from now on, since the clocks of nodes differ; a new master goes by their times. */
  #noteFailures ({ failures, now }: Situation, mono: number): ReadonlyMap<string, number> {
    const old = this.#failed
    const age = (at = ''): number => old === null ? Math.max(0, now - Date.parse(at)) || 0 : 0
    this.#failed = new Map(failures.map(({ instanceId, recordedAt }) =>
      [instanceId, old?.get(instanceId) ?? mono - age(recordedAt)]))
    return this.#failed
  }
}

/** The time at which a policy added the instance; '' for all others. */
const replicaOf = (instance: Instance): string => intentOf(instance).replica ?? ''

import { inUseClosure, newestFirst, planRecency, requireFit, type CompanionsOf } from './plans.js'
import { KeyedLock } from '../files/queues.js'
import type { Clock, Logger } from '../../../kernel/index.js'
import { modelIdProblem } from '../files/names.js'
import { volumeOf } from '../files/folders.js'
import { failureOf } from '../transfer/job.js'
import type { ModelRoot } from '../files/root.js'
import type { Answers } from '../routes.js'
import type { Copy, Role } from '../types.js'
import type { Leases } from './leases.js'

/** Interval in ms for recording the last use of copies in use. */
const REFRESH_MS = 60_000
/** Copies used within this many ms before a start stay, regardless of the budget. */
const KEEP_AT_START_MS = 30 * 60_000

/** Why copies are removed; `preview` only lists what a purge would remove. */
type Trigger = 'deactivation' | 'startup' | 'capacity' | 'purge' | 'store_delete' | 'preview'

export interface Evicted { modelId: string, freedBytes: number, trigger: Trigger, role: Role }

/** `error` lists the copies that could not be removed. */
export type Purged = Omit<Answers['purge']['nodes'][number], 'nodeId' | 'copies'>

/** `overBudget` means that the next eviction pass removes the copy. */
export type EvictionPreview = Pick<Copy, 'modelId' | 'sizeBytes' | 'freeableBytes' | 'lastUsedMs'> &
  { inUse: boolean, overBudget: boolean }

export interface EvictorSettings {
  /** Whether the passes after a deactivation and at startup evict staged copies. */
  cleanupOnDeactivate: boolean
  /** Bytes of idle staged copies that these passes keep. */
  keepRecentBytes: number
  /** Bytes of disk space that must stay free after a transfer. */
  headroomBytes: number
}

type Root = Pick<ModelRoot, 'role' | 'root' | 'list' | 'read' | 'remove' | 'touch' | 'pending' | 'discard'>

export interface EvictorOptions {
  /** The folders with copies. Eviction passes skip `cache`, but a purge does not. */
  roots: { staged: Root, beside?: Root, cache?: Root }
  leases: Leases, companionsOf: CompanionsOf
  /** Models with a transfer in progress, whose copies and companions must stay. */
  active: () => Iterable<string>
  settings: EvictorSettings, clock: Clock, log: Logger
  onEvicted: (evicted: Evicted) => void
  volume?: () => Promise<{ freeBytes: number }>
}

/** Decides which copies stay on disk and removes all others. Full passes run one at a time. */
export class Evictor {
  readonly #options: EvictorOptions
  readonly #passes = new KeyedLock()
  readonly #removing = new Set<string>()
  readonly #roots: Root[]

  constructor (options: EvictorOptions) {
    const { staged, beside, cache } = options.roots
    this.#options = options
    this.#roots = [staged, beside, cache].filter((root) => root !== undefined)
  }

  get #evicted (): Root[] { return this.#roots.filter(({ role }) => role !== 'cache') }

  /** Records uses when they begin, when they end, and every minute. Returns a function that stops it. */
  watch (): () => void {
    const { leases, clock } = this.#options
    const stops = [
      leases.onUse((modelId) => { void this.#touch([modelId]) }),
      leases.onIdle((modelId) => { void this.#touch([modelId]) }),
      clock.every(REFRESH_MS, () => { void this.#touch(leases.ids()) })
    ]
    return () => { for (const stop of stops) stop() }
  }

  async startup (): Promise<void> {
    const { clock, roots: { staged } } = this.#options
    await this.#pass(async () => {
      const now = clock.now()
      // Reset future times to now, on disk as well; otherwise a clock that was ahead protects a copy forever.
      const ahead = (await this.#ours(staged)).filter(({ lastUsedMs }) => lastUsedMs > now)
      await Promise.all(ahead.map(async ({ modelId }) => { await this.#touchOne(staged, modelId) }))
      await this.#evictIdle(staged, 'startup', now - KEEP_AT_START_MS)
    }).catch((err: unknown) => {
      this.#options.log.error({ err }, 'the eviction pass at start failed; idle copies stay')
    })
  }

  async deactivated (modelId: string): Promise<void> {
    await this.#pass(async () => {
      await this.#touch([modelId])
      // Start with the versions in `beside`, which stay only while in use.
      for (const root of this.#evicted.reverse()) await this.#evictIdle(root, 'deactivation')
    })
  }

  /** Evicts idle copies for a transfer, except `keep` and its companions. Throws `no_safe_fit`. */
  async makeRoom (bytes: number, keep: string): Promise<void> {
    if (bytes > 0) await this.#pass(async () => { await this.#capacityPass(bytes, keep) })
  }

  /** Throws `no_safe_fit` if `makeRoom` would throw it, but evicts nothing. */
  async requireRoom (additionalBytes: number, keep: string): Promise<void> {
    const { roots: { staged }, settings: { headroomBytes } } = this.#options
    const safe = this.#safe(keep)
    const idle = (await this.#copies(staged)).filter(({ modelId }) => !safe.has(modelId))
    const freeBytes = await this.#freeBytes()
    requireFit({ additionalBytes, freeBytes, headroomBytes, idle })
  }

  async #freeBytes (): Promise<number> {
    const { roots: { staged }, volume = async () => await volumeOf(staged.root) } = this.#options
    return (await volume()).freeBytes
  }

  /** Removes the idle copies of one model or of all. Never rejects; failures are in `error`. */
  async purge (modelId?: string, trigger: 'purge' | 'store_delete' = 'purge'): Promise<Purged> {
    const work = async (): Promise<Purged> => (await this.#purgeAll(modelId, trigger)).purged
    // A purge of one model need not wait for other passes.
    return modelId === undefined ? await this.#pass(work) : await work()
  }

  /** Lists the copies in eviction order. Never rejects. */
  async preview (modelId?: string): Promise<Purged & { copies: EvictionPreview[] }> {
    const { purged, copies } = await this.#purgeAll(modelId, 'preview')
    return { ...purged, copies: copies.sort(newestFirst).reverse() }
  }

  /** All staged copies, most recently used first in each folder. Companions of used models count as used. */
  async storage (): Promise<{ copies: (Copy & { inUse: boolean })[], totalBytes: number }> {
    const { leases, companionsOf } = this.#options
    const listed = (await Promise.all(this.#evicted.map(async (root) => await this.#ours(root)))).flat()
    const used = inUseClosure(leases.ids(), companionsOf)
    const copies = listed.map((copy) => ({ ...copy, inUse: used.has(copy.modelId) }))
    return { copies, totalBytes: copies.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) }
  }

  async #pass<T> (work: () => Promise<T>): Promise<T> { return await this.#passes.run('pass', work) }

  async #evictIdle (root: Root, trigger: Trigger, keepSinceMs = Infinity): Promise<void> {
    for (const modelId of this.#overBudget(root, await this.#copies(root), keepSinceMs)) {
      await this.#evict(root, modelId, trigger)
    }
  }

  /** The idle copies that a pass removes, oldest use first; all idle copies in `beside` are among them. */
  #overBudget ({ role }: Root, copies: readonly Copy[], keepSinceMs = Infinity): string[] {
    const { cleanupOnDeactivate, keepRecentBytes } = this.#options.settings
    if (role !== 'beside' && !cleanupOnDeactivate) return []
    const safe = this.#safe()
    const idle = copies.filter(({ modelId }) => !safe.has(modelId))
    return planRecency({ idle, budgetBytes: role === 'beside' ? 0 : keepRecentBytes, keepSinceMs })
  }

  /** Plans again after each removal, which may have failed or freed less; the next copy may now be in use. */
  async #capacityPass (additionalBytes: number, keep: string): Promise<void> {
    const { roots: { staged }, settings: { headroomBytes } } = this.#options
    // Count freed bytes instead of reading the free space, which some file systems update seconds later.
    let freeBytes = await this.#freeBytes()
    let left = await this.#copies(staged)
    for (;;) {
      const safe = this.#safe(keep)
      const idle = left.filter(({ modelId }) => !safe.has(modelId))
      const [next] = requireFit({ additionalBytes, freeBytes, headroomBytes, idle })
      if (next === undefined) return
      freeBytes += await this.#evict(staged, next, 'capacity', keep)
      left = left.filter(({ modelId }) => modelId !== next)
    }
  }

  async #purgeAll (
    wanted: string | undefined, trigger: Trigger
  ): Promise<{ purged: Purged, copies: EvictionPreview[] }> {
    const { active, log } = this.#options
    const dry = trigger === 'preview'
    const [removed, skipped] = [new Set<string>(), new Set<string>()]
    const errors: string[] = []
    const copies: EvictionPreview[] = []
    let freedBytes = 0
    const failed = (what: string, err: unknown): void => {
      errors.push(`${what}: ${failureOf(err).message}`)
      log.warn({ err, what }, 'the purge could not remove a copy')
    }
    const one = async (root: Root, copy: EvictionPreview): Promise<void> => {
      const { modelId, freeableBytes, inUse } = copy
      copies.push(copy)
      const freed = !dry ? await this.#remove(root, modelId, trigger) : inUse ? undefined : freeableBytes
      if (freed === undefined) skipped.add(modelId)
      else removed.add(modelId)
      freedBytes += freed ?? 0
    }
    for (const root of this.#roots) {
      try {
        for (const copy of await this.#outlook(root, wanted, dry)) {
          await one(root, copy).catch((err: unknown) => { failed(copy.modelId, err) })
        }
      } catch (err) { failed(root.root, err) }
      try {
        for (const { modelId, sizeBytes } of await root.pending(wanted)) {
          // Check each model just before its removal, because a transfer may have begun in the meantime.
          if ([...active()].includes(modelId)) continue
          if (!dry) await root.discard(modelId)
          freedBytes += sizeBytes
          removed.add(modelId)
        }
      } catch (err) { failed(root.root, err) }
    }
    // A model's first transfer has no copy that the loop above could report as skipped.
    for (const modelId of active()) {
      if ((wanted ?? modelId) === modelId && !removed.has(modelId)) skipped.add(modelId)
    }
    const error = errors.join('; ') || null
    const purged = { removed: [...removed].sort(), skippedInUse: [...skipped].sort(), freedBytes, error }
    return { purged, copies }
  }

  /** The copies in a root; with `dry`, marks those that the next pass would evict. */
  async #outlook (root: Root, wanted: string | undefined, dry: boolean): Promise<EvictionPreview[]> {
    const all = await this.#copies(root, dry ? undefined : wanted)
    const safe = this.#safe()
    const going = dry && root.role !== 'cache' ? this.#overBudget(root, all) : []
    return all.filter(({ modelId }) => (wanted ?? modelId) === modelId)
      .map(({ modelId, sizeBytes, freeableBytes, lastUsedMs }) => ({
        modelId, sizeBytes, freeableBytes, lastUsedMs,
        inUse: safe.has(modelId), overBudget: going.includes(modelId)
      }))
  }

  /** Like `#remove`, but logs a failure instead of throwing; resolves with the freed bytes. */
  async #evict (root: Root, modelId: string, trigger: Trigger, keep?: string): Promise<number> {
    return await this.#remove(root, modelId, trigger, keep).catch((err: unknown) => {
      this.#options.log.warn({ err, modelId, trigger }, 'an idle copy could not be removed')
      return undefined
    }) ?? 0
  }

  /** Removes a copy unless it is in use; resolves with the freed bytes, undefined if it is in use. */
  async #remove (root: Root, modelId: string, trigger: Trigger, keep?: string): Promise<number | undefined> {
    const { leases, companionsOf, onEvicted, log } = this.#options
    const key = `${root.role} ${modelId}`
    // Do not await between this check and `going`: a concurrent use is either seen here or refused there.
    if (this.#removing.has(key) || this.#safe(keep).has(modelId)) return undefined
    this.#removing.add(key)
    const back = leases.going(modelId, (used) => inUseClosure([used], companionsOf).has(modelId))
    try {
      const freedBytes = await root.remove(modelId)
      log.info({ modelId, freedBytes, trigger }, 'removed an idle copy')
      onEvicted({ modelId, freedBytes, trigger, role: root.role })
      return freedBytes
    } finally {
      this.#removing.delete(key)
      back()
    }
  }

  #safe (keep?: string): Set<string> {
    const { leases, active, companionsOf } = this.#options
    return inUseClosure([...leases.ids(), ...active(), ...keep === undefined ? [] : [keep]], companionsOf)
  }

  /** Copies that svc wrote; other folders with a model's name are ignored. */
  async #ours (root: Root, modelId?: string): Promise<Copy[]> {
    const copies = modelId === undefined ? await root.list()
      : modelIdProblem(modelId) === null ? [await root.read(modelId)] : []
    return copies.filter((copy) => copy?.ours === true) as Copy[]
  }

  async #copies (root: Root, modelId?: string): Promise<Copy[]> {
    const { clock } = this.#options
    const copies = await this.#ours(root, modelId)
    return copies.map((copy) => ({ ...copy, lastUsedMs: Math.min(copy.lastUsedMs, clock.now()) }))
  }

  async #touch (used: readonly string[]): Promise<void> {
    const all = [...inUseClosure(used, this.#options.companionsOf)]
    await Promise.all(this.#evicted.flatMap((root) =>
      all.map(async (modelId) => { await this.#touchOne(root, modelId) })))
  }

  /** Records a use; a failure is ignored, because it only affects the eviction order. */
  async #touchOne (root: Root, modelId: string): Promise<void> {
    const { clock, log } = this.#options
    await root.touch(modelId, clock.now()).catch((err: unknown) => {
      log.warn({ err, modelId }, 'the last use of a copy could not be recorded')
    })
  }
}

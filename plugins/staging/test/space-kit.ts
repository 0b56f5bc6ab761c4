import {
  existsSync, linkSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, closeSync, ftruncateSync,
  openSync, utimesSync, writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import { ModelRoot } from '../files/root.js'
import { Evictor, type Evicted, type EvictorOptions } from '../space/evictor.js'
import { Leases } from '../space/leases.js'
import { recordOf } from './files-kit.js'
import type { Logger } from '../../../kernel/index.js'

export const GIB = 1024 ** 3
export const MINUTE = 60_000

/** An evictor for a staging root on the real disk; its models are sparse files. */
export interface SpaceRig {
  folder: string
  clock: ManualClock
  leases: Leases
  evictor: Evictor
  evicted: Evicted[]
  logged: string[]
  /** Settings, which a test may change while the evictor runs. */
  settings: { cleanupOnDeactivate: boolean, keepRecentBytes: number, headroomBytes: number }
  leased: Set<string>
  companions: Map<string, string[]>
  volume: { freeBytes: number }
  /** A model `o/NAME`, last used `minutesAgo` (negative: in the future). */
  put (name: string, bytes: number, minutesAgo: number): void
  /** Creates a hard link to the model's weights outside the root, so their removal frees nothing. */
  hardLink (name: string): void
  /** Names of the models that are still on disk. */
  there (): string
  /** Minutes since the model's last use, according to the disk. */
  ageOf (name: string): number
}

function logger (lines: string[]): Logger {
  const write = (level: string) => (fields: Record<string, unknown>, message: string): void => {
    lines.push(`${level} ${message} ${String(fields['modelId'] ?? '')}`.trim())
  }
  const [debug, info, warn, error, fatal] =
    [write('debug'), write('info'), write('warn'), write('error'), write('fatal')]
  return { debug, info, warn, error, fatal }
}

/** `over` replaces single options of the evictor. */
export function spaceRig (
  t: { teardown: (fn: () => void) => void }, over: (root: ModelRoot) => Partial<EvictorOptions> = () => ({})
): SpaceRig {
  const parent = mkdtempSync(join(tmpdir(), 'svc-space-'))
  t.teardown(() => { rmSync(parent, { recursive: true, force: true }) })
  const folder = join(parent, 'staging')
  mkdirSync(join(folder, '.trash'), { recursive: true })
  mkdirSync(join(folder, '.incoming'))
  const clock = manualClock()
  const leases = new Leases()
  const root = new ModelRoot({ root: folder, clock })
  const [evicted, logged]: [Evicted[], string[]] = [[], []]
  const settings = { cleanupOnDeactivate: true, keepRecentBytes: 40 * GIB, headroomBytes: 10 * GIB }
  const leased = new Set<string>()
  const companions = new Map<string, string[]>()
  const volume = { freeBytes: 1000 * GIB }
  const evictor = new Evictor({
    roots: { staged: root },
    leases,
    clock,
    companionsOf: (id) => companions.get(id) ?? [],
    active: () => leased,
    settings,
    log: logger(logged),
    onEvicted: (one) => { evicted.push(one) },
    volume: async () => await Promise.resolve({ ...volume }),
    ...over(root)
  })
  const state = { clock, leases, evicted, logged, settings, leased, companions, volume }
  return { folder, evictor, ...state, ...disk(folder, clock) }
}

function disk (folder: string, clock: ManualClock): Pick<SpaceRig, 'put' | 'hardLink' | 'there' | 'ageOf'> {
  const weights = (name: string): string => join(folder, `o--${name}`, 'onnx', 'model.onnx')
  const marker = (name: string): string => join(folder, `o--${name}`, '.last_used')
  return {
    put (name, bytes, minutesAgo) {
      mkdirSync(dirname(weights(name)), { recursive: true })
      const file = openSync(weights(name), 'w')
      ftruncateSync(file, bytes)
      closeSync(file)
      writeFileSync(marker(name), '')
      const record = recordOf(`o/${name}`, { 'onnx/model.onnx': '' })
      writeFileSync(join(folder, `o--${name}`, '.svc-record.json'), JSON.stringify({ format: 1, ...record }))
      const seconds = (clock.now() - minutesAgo * MINUTE) / 1000
      utimesSync(marker(name), seconds, seconds)
    },
    hardLink (name) { linkSync(weights(name), join(folder, '..', name)) },
    there: () => readdirSync(folder).filter((entry) => existsSync(join(folder, entry, '.last_used')))
      .map((entry) => entry.replace('o--', '')).sort().join(' '),
    ageOf: (name) => Math.round((clock.now() - statSync(marker(name)).mtimeMs) / 1000) / 60
  }
}

/** The models that are evicted while `work` runs, in order. */
export async function evictedBy (
  { evicted }: Pick<SpaceRig, 'evicted'>, work: () => Promise<void>
): Promise<string[]> {
  const before = evicted.length
  await work()
  return evicted.slice(before).map(({ modelId }) => modelId)
}

export const deactivated = async (
  rig: Pick<SpaceRig, 'evicted' | 'evictor'>, modelId: string
): Promise<string[]> => await evictedBy(rig, async () => { await rig.evictor.deactivated(modelId) })

type Root = EvictorOptions['roots']['staged']

/** A root with some operations replaced; each replacement receives the real operation. */
export function instead (
  root: Root, by: Partial<{ [K in 'list' | 'remove' | 'touch']: (real: Root[K]) => Root[K] }>
): Partial<EvictorOptions> {
  const real: Root = {
    role: root.role,
    root: root.root,
    list: async () => await root.list(),
    read: async (id) => await root.read(id),
    remove: async (id) => await root.remove(id),
    touch: async (id, nowMs) => { await root.touch(id, nowMs) },
    pending: async (id) => await root.pending(id),
    discard: async (id) => { await root.discard(id) }
  }
  const { list: lists = (own) => own, remove = (own) => own, touch = (own) => own } = by
  return {
    roots: {
      staged: { ...real, list: lists(real.list), remove: remove(real.remove), touch: touch(real.touch) }
    }
  }
}

/** Polls until `holds()` is true. Rejects after 10 s. */
export async function until (what: string, holds: () => boolean): Promise<void> {
  const end = performance.now() + 10_000
  while (!holds()) {
    if (performance.now() > end) throw new Error(`waited in vain: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

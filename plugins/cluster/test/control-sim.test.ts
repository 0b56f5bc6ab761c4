import fc from 'fast-check'
import t from 'tap'
import { plans } from '../../../test/sim/faults.js'
import { LogTwin, type Disk, type Write } from '../../../test/sim/log-twin.js'
import { simulate } from '../../../test/sim/simulate.js'
import { ControlLog } from '../log/log.js'
import { keptLog, put } from './documents-kit.js'
import { manualClock } from '../../../kernel/testing/index.js'
import type { ApplyResult, Entry, Log, LogPosition, NodeId, CommandReceipt } from '../election/protocol.js'
import type { SnapshotStore } from '../log/snapshot.js'
import type { SimMode } from '../../../test/sim/plan.js'

interface Bodies { readonly twin: ReturnType<LogTwin['body']>, readonly control: unknown }

/** The control document's file on each simulated disk; it survives crashes of its node. */
const files = new WeakMap<Disk, { text: string | undefined }>()
let adoptions = 0
let gaps = 0

/**
 * Runs the simulator with the control document and, as its model, the simulator's own list: both must give
 * the same answers. The simulator's invariants read the list.
 */
class ControlledLog implements Log {
  readonly disk: Disk
  readonly #twin: LogTwin
  readonly #control: ControlLog
  #ok = true

  constructor (disk: Disk, first: readonly NodeId[], write: Write, changed: () => void) {
    this.disk = disk
    const file = files.get(disk) ?? { text: undefined }
    files.set(disk, file)
    const store: SnapshotStore = {
      read: () => file.text,
      write: (text) => {
        this.#ok = write().ok
        if (!this.#ok) throw new Error('the disk refuses')
        file.text = text
      }
    }
    // The list's disk write succeeds if and only if the document's did.
    this.#twin = new LogTwin(disk, first, () => ({ ok: this.#ok, wrote: this.#ok }), changed)
    this.#control = new ControlLog({
      store,
      durable: true,
      execute: (payload) => {
        const text = JSON.stringify(payload ?? 0)
        return { writes: [put(`k/${text.length % 7}`, text)], result: 'done' }
      },
      seed: (previous) => previous,
      clock: manualClock(),
      log: keptLog(),
      founders: first
    })
    this.#same('fresh', this.#control.last(), this.#twin.last())
  }

  last (): LogPosition { return this.#same('fresh', this.#control.last(), this.#twin.last()) }
  voters (): readonly NodeId[] { return this.#same('voters', this.#control.voters(), this.#twin.voters()) }

  append (entry: Entry): boolean {
    this.#ok = true
    const appended = this.#control.append(entry)
    return this.#same('append', appended, this.#twin.append(entry))
  }

  find (id: string): CommandReceipt | undefined {
    const { sid, term, seq } = this.#control.find(id) ?? {}
    const found = this.#twin.find(id)
    this.#same(`find ${id}`, { sid, term, seq }, { sid: found?.sid, term: found?.term, seq: found?.seq })
    return found
  }

  body (seq: number | null): Bodies {
    const control = this.#control.body(seq)
    return { control, twin: this.#twin.body(control.base === null ? null : seq) }
  }

  adopt (body: unknown): ApplyResult {
    this.#ok = true
    const { twin, control } = body as Bodies
    const adoption = this.#control.adopt(structuredClone(control))
    // After a restart, a node has the contents but no Yjs document, so `gap` requests the whole one.
    if (adoption === 'gap') {
      gaps++
      return 'gap'
    }
    adoptions++
    const expected = this.#twin.adopt(twin)
    this.#same('fresh after adopt', this.#control.last(), this.#twin.last())
    return this.#same('adopt', adoption, expected)
  }

  #same<T> (what: string, control: T, twin: T): T {
    const [a, b] = [JSON.stringify(control), JSON.stringify(twin)]
    if (a !== b) throw new Error(`${what}: the document says ${a}, the model ${b}`)
    return control
  }
}

const RUNS = Number(process.env['SIM_CONTROL_RUNS'] ?? 15)

const explore = (mode: SimMode): void => {
  t.test(`mode ${mode}: elections over the control document break no invariant`, (t) => {
    adoptions = 0
    gaps = 0
    let acked = 0
    const holds = fc.property(plans(mode), (plan) => {
      const result = simulate(plan, {
        log: (disk, first, write, changed) => new ControlledLog(disk, first, write, changed)
      })
      acked += result.acked
      if (result.violations.length > 0) throw new Error(result.violations.join('; '))
    })
    fc.assert(holds, { numRuns: RUNS, seed: 3 })
    t.ok(acked > RUNS * 20, `${acked} commands were acknowledged`)
    t.ok(adoptions > RUNS * 20, `${adoptions} bodies were adopted, ${gaps} had a gap`)
    t.end()
  })
}

explore('A')
explore('B')

import { Readable, Writable } from 'node:stream'
import { runCli } from '../../../kernel/cli/program.js'
import { definePlugin } from '../../../kernel/index.js'
import { standIn } from '../../../kernel/test/cli-helpers.js'
import { createDrain } from '../cli/drain.js'
import { createPlace } from '../cli/place.js'
import { createStop } from '../cli/stop.js'
import { verbs } from '../cli/verbs.js'
import { instanceOf } from '../place/instance.js'
import { changed } from '../../runners/service.js'
import type { Instance } from '../../runners/service.js'
import { card, stateOf } from './kit.js'
import type { StateView } from './kit.js'
import type { Asked } from '../../../kernel/test/cli-helpers.js'
import type { Pace } from '../../../kernel/cli/index.js'
import type { SeenState } from '../cli/state.js'

export { sendError, sendJson } from '../../../kernel/test/cli-helpers.js'

/** A pace without waiting; `onPause` is told how many pauses there were. */
function quickPace (onPause: (pauses: number) => void): Pace {
  let now = 0
  let pauses = 0
  return {
    mono: () => now,
    async pause (ms) {
      now += ms
      onPause(++pauses)
    }
  }
}

class Kept extends Writable {
  text = ''
  readonly isTTY: boolean
  constructor (terminal: boolean) {
    super()
    this.isTTY = terminal
  }

  override _write (chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString()
    done()
  }
}

export interface RunOptions {
  onPause?: (pauses: number) => void
  signal?: AbortSignal
  /** All streams are a terminal, on which this is typed. */
  typed?: string
}

/** What a command line did. */
export interface Ran { status: number, out: string, err: string }

async function svc (words: readonly string[], options: RunOptions): Promise<Ran> {
  const terminal = options.typed !== undefined
  const stdout = new Kept(terminal)
  const stderr = new Kept(terminal)
  const stdin: Readable & { isTTY?: boolean } = Readable.from([options.typed ?? ''])
  if (terminal) stdin.isTTY = true
  const pace = quickPace(options.onPause ?? (() => {}))
  const paced = {
    ...verbs,
    place: { ...verbs.place, load: async () => ({ default: createPlace(pace) }) },
    drain: { ...verbs.drain, load: async () => ({ default: createDrain(pace) }) },
    stop: { ...verbs.stop, load: async () => ({ default: createStop(pace) }) }
  }
  const plugin = definePlugin({
    name: 'placement-verbs', version: '1.0.0', kernel: '^1.0.0', summary: 'The verbs.', verbs: paced
  }, () => ({}))
  const status = await runCli(words, {
    io: { stdout, stderr, stdin, env: { NO_COLOR: '1' }, cwd: process.cwd() },
    plugins: async () => [plugin],
    signal: options.signal ?? new AbortController().signal
  })
  return { status, out: stdout.text, err: stderr.text }
}

export interface Node {
  asked: Asked[]
  run (words: readonly string[], options?: RunOptions): Promise<Ran>
}

/** Starts a stand-in for a node. */
export async function nodeOf (
  t: { teardown (fn: () => unknown): void }, answers: Parameters<typeof standIn>[1]
): Promise<Node> {
  const { url, asked } = await standIn(t, answers)
  return { asked, run: async (words, options = {}) => await svc([...words, '--url', url], options) }
}

/** GET /state of the nodes n1 and n2, nothing placed. */
export function seenState (): SeenState & StateView {
  return {
    ...stateOf({ n1: 64, n2: 64 }), localNodeId: 'id-n1',
    nodeIdentities: { 'id-n1': { friendlyName: 'n1' }, 'id-n2': { friendlyName: 'n2' } }
  }
}

/** An instance of a model on nodes, in equal parts. */
export function instanceOn (instanceId: string, modelId: string, nodeIds: string[]): Instance {
  const of = nodeIds.length
  let named = 0
  const ranks = nodeIds.map((nodeId, i) => ({
    nodeId, backend: 'cpu', startLayer: i * 10 / of, endLayer: (i + 1) * 10 / of, shareBytes: 0,
    neededBytes: 0, usableBytes: 0, freeAfterBytes: 0
  }))
  const made = instanceOf(
    { ranks, sharding: 'Pipeline', instanceMeta: 'Ring', contextLength: 4096 }, card(modelId), [],
    () => `${instanceId}-${named++}`)
  return changed(made, { instanceId })
}

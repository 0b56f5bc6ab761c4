import t from 'tap'
import { memoryLimitBytes } from '../machine/memory.js'
import { manualClock } from '../../../kernel/testing/index.js'
import type { Member } from '../instances/runner-set.js'
import { createReconciler, plan, type ReconcilerParts } from '../instances/reconcile.js'
import { assignmentOf, namedRunners, stateCard } from '../instances/shapes.js'
import { card, soloInstance } from './samples.js'

const ids = { instanceId: 'I', runnerId: 'R', nodeId: 'N' }

t.test('an instance on one node is a pipeline of one in a ring of one', async (t) => {
  const model = card('svc/voice-en', { contextLength: 4096 })
  t.same(soloInstance(ids, model), {
    RingInstance: {
      instanceId: 'I',
      contextTokenLimit: 4096,
      systemRole: null,
      engine: 'onnx-tts',
      shardAssignments: {
        modelId: 'svc/voice-en',
        runnerToShard: {
          R: {
            PipelineShardMetadata: {
              modelCard: stateCard(model),
              deviceRank: 0,
              worldSize: 1,
              startLayer: 0,
              endLayer: 3,
              nLayers: 3
            }
          }
        },
        nodeToRunner: { N: 'R' }
      },
      hostsByNode: { N: [] }
    }
  })
})

t.test('sizes in a state card are {inBytes}', async (t) => {
  const shown = stateCard(card('svc/voice-en'))
  t.same(shown.storageSize, { inBytes: 5_000_000 })
  t.same(shown.files, [{ path: 'voice.onnx', role: 'graph', size: { inBytes: 5_000_000 } }])
  t.notOk('totalBytes' in shown)
  t.equal(shown.modelId, 'svc/voice-en')
})

t.test('a long list of files stays out of the instance', async (t) => {
  const files = Array.from({ length: 65 }, (_, n) => ({ path: `f${n}.onnx`, role: 'graph', bytes: 1 }))
  t.equal(stateCard(card('acme/x', { files: files.slice(1) })).files.length, 64)
  const shown = stateCard(card('acme/x', { files }))
  t.same(shown.files, [])
  t.same(shown.storageSize, { inBytes: 5_000_000 }, 'the size stays')
})

t.test('an assignment is read back from the instance', async (t) => {
  const instance = soloInstance(ids, card('svc/voice-en'))
  t.same(assignmentOf(instance, 'N'), { instanceId: 'I', runnerId: 'R', modelId: 'svc/voice-en' })
  t.equal(assignmentOf(instance, 'another'), null)
  t.same([...namedRunners([instance])], ['R'])
})

const a = { instanceId: 'ia', runnerId: 'a', modelId: 'x/a' }
const b = { instanceId: 'ib', runnerId: 'b', modelId: 'x/b' }

function checkPlan (
  name: string,
  desired: (typeof a)[],
  present: string[],
  start: string[],
  stop: string[]
): void {
  t.test(name, async (t) => {
    const found = plan(desired, present)
    t.same(
      found.start.map(({ runnerId }) => runnerId),
      start
    )
    t.same(found.stop, stop)
  })
}
checkPlan('nothing to do', [], [], [], [])
checkPlan('a first placement', [a, b], [], ['a', 'b'], [])
checkPlan('as it should be', [a, b], ['b', 'a'], [], [])
checkPlan('a deletion', [a], ['a', 'b'], [], ['b'])
checkPlan('a replacement', [b], ['a'], ['b'], ['a'])

/** A reconciler over in-memory runners, and its actions. */
function loop (present: string[], over: Pick<ReconcilerParts, 'desired'> & Partial<ReconcilerParts>) {
  const did: string[] = []
  const reconcile = createReconciler({
    clock: manualClock(),
    log: { warn: ({ error }: { error: string }) => { did.push(error) } } as never,
    opened: Promise.resolve(),
    closing: new AbortController().signal,
    settled: async () => {},
    ended: async (runnerId) => { did.push(`${runnerId} ended`) },
    fleet: {
      members: () => present.map((runnerId) => ({ assignment: { ...a, runnerId } }) as Member),
      start ({ runnerId }) {
        did.push(`start ${runnerId}`)
        present.push(runnerId)
      },
      async stop (runnerId) {
        await new Promise((resolve) => { setImmediate(resolve) })
        did.push(`stop ${runnerId}`)
        present.splice(present.indexOf(runnerId), 1)
      }
    },
    ...over
  })
  return { reconcile, did }
}

t.test('the loop ends in the desired state, stops first, one pass at a time', async (t) => {
  const present = ['old']
  let desired = [a]
  let passes = 0
  const { reconcile, did } = loop(present, {
    desired: () => {
      passes += 1
      return desired
    }
  })
  const first = reconcile()
  t.equal(reconcile(), first, 'asked twice before it began is one pass')
  await first
  t.same(did, ['stop old', 'old ended', 'start a'])
  desired = [b]
  await reconcile()
  await reconcile()
  t.same(present, ['b'])
  t.same(did.slice(3), ['stop a', 'a ended', 'start b'])
  t.equal(passes, 5, 'twice where something changes')
})

t.test('only what is acknowledged is acted on', async (t) => {
  let desired = [a, { ...b, runnerId: 'old' }]
  let settled = async (): Promise<void> => { throw new Error('no master') }
  const { reconcile, did } = loop(['old', 'stays'],
    { desired: () => desired, settled: async () => { await settled() } })
  await reconcile()
  t.same(did.splice(0), ['no master'], 'nothing while nobody acknowledges')
  settled = async () => { desired = [b, { ...b, runnerId: 'stays' }] }
  await reconcile()
  t.same(did.splice(0), [], 'an entry that was taken back, and one that came later')
  settled = async () => {}
  await reconcile()
  t.same(did, ['stop old', 'old ended', 'start b'])
})

t.test('nothing starts before models can be found; a plugin that stops waits for no master', async (t) => {
  const closing = new AbortController()
  let open = (): void => {}
  const present: string[] = []
  const { reconcile, did } = loop(present, {
    opened: new Promise<void>((resolve) => { open = resolve }),
    closing: closing.signal,
    settled: async () => { if (did.length > 0) await new Promise(() => {}) },
    desired: () => closing.signal.aborted ? [] : [a]
  })
  await reconcile()
  t.same(did, [])
  open()
  await new Promise((resolve) => { setImmediate(resolve) })
  t.same(did, ['start a'])
  closing.abort()
  await reconcile()
  t.same(did, ['start a', 'stop a', 'a ended'])
})

t.test('a pass that breaks off does not end the loop', async (t) => {
  let broken = true
  const present: string[] = []
  const clock = manualClock()
  const { reconcile, did } = loop(present, {
    clock,
    desired () {
      if (broken) throw new Error('no document')
      return [a]
    }
  })
  await reconcile()
  t.same(did.splice(0), ['no document'])
  broken = false
  await clock.advance(1000)
  t.same(present, [a.runnerId], 'it is tried again')
})

const GiB = 1024 ** 3
t.test('memory cap: what placement counts, and the cache twice', async (t) => {
  const small = card('acme/small', { totalBytes: 5_000_000 })
  const large = { ...small, totalBytes: 10 * GiB, nLayers: 32, kvHeads: 8, headSize: 128, valueBytes: 2 }
  const long = { ...large, contextLength: 131_072 }
  const cap = (bytes: number): number => Math.ceil(bytes * 1.1)
  t.equal(memoryLimitBytes(small, {}), GiB, 'a small model gets the floor')
  t.equal(memoryLimitBytes(long, {}), cap(13.25 * GiB + 2 * GiB))
  t.equal(memoryLimitBytes(long, { overhead: 1.1, fixedBytes: GiB }, { context: 16_384 }),
    cap(12 * GiB + 4 * GiB))
  t.equal(memoryLimitBytes(long, {}, undefined, 64), 64 * 1024 ** 2, 'the configuration wins')
})

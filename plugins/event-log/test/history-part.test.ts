import t from 'tap'
import { decodeBody, encodeBody, noteOf } from '../history/body.js'
import { Draft, partOf, type ClusterPart } from '../history/part.js'
import { instanceOn, stateWith } from './history-kit.js'
import type { Entry } from '../log/entries.js'

const base: ClusterPart = {
  session: { sessionId: 's1', term: 1, masterNodeId: 'a' }, members: ['a', 'b'],
  instances: { i1: { modelId: 'acme/x', nodeIds: ['a'] } }
}

type Brief = readonly [kind: string, payload: Record<string, unknown>, origin?: string, sid?: string]
const entry = ([kind, payload, origin = 'a', sid = 's1']: Brief, n: number): Entry => ({
  idx: n + 1, prev: n, chain: '', sid, at: '2026-01-01T00:00:00.000Z', origin, id: `e${n}`,
  event: { [kind]: payload }
})
const elected = { sessionId: 's2', term: 2, masterNodeId: 'b' }
const sessionChanged: Brief = ['SessionChanged', { ...elected, previousSessionId: 's1' }, 'b', 's2']
const masterElected: Brief = ['MasterElected', elected, 'b', 's2']
const session2 = { sessionId: 's2', term: 2, masterNodeId: 'b' }

t.test('what each event does to session, membership and instances', (t) => {
  const check = (what: string, events: readonly Brief[], changed: Partial<ClusterPart>): void => {
    t.strictSame(new Draft(base, events.map(entry)).part(), { ...base, ...changed }, what)
  }
  check('nothing', [], {})
  check('a node joins', [['NodeJoined', { nodeId: 'c' }]], { members: ['a', 'b', 'c'] })
  check('twice', [['NodeJoined', { nodeId: 'b' }], ['NodeJoined', { nodeId: 'b' }]], {})
  check('and is lost', [['NodeTimedOut', { nodeId: 'b', evidence: 'closed' }]], { members: ['a'] })
  check('or removed', [['NodeRemoved', { nodeId: 'b' }]], { members: ['a'] })
  check('another master', [sessionChanged, masterElected, ['NodeTimedOut', { nodeId: 'a' }, 'b', 's2']],
    { session: session2, members: ['b'] })
  check('the same one again', [['MasterElected', { sessionId: 's1', term: 4, masterNodeId: 'a' }]],
    { session: { ...base.session, term: 4 } })
  check('a cluster that starts anew', [
    ['SessionChanged', { ...elected, masterNodeId: 'c', previousSessionId: null }, 'c', 's2'],
    ['MasterElected', { ...elected, masterNodeId: 'c' }, 'c', 's2'],
    ['NodeJoined', { nodeId: 'd' }, 'c', 's2']
  ], { session: { ...session2, masterNodeId: 'c' }, members: ['c', 'd'] })
  check('which may begin with those who are there', [
    ['MasterElected', { ...elected, masterNodeId: 'c' }, 'c', 's2'],
    ...['d', 'e'].map((nodeId): Brief => ['NodeJoined', { nodeId }, 'c', 's2']),
    ['NodeTimedOut', { nodeId: 'e' }, 'c', 's2'],
    ['SessionChanged', { ...elected, masterNodeId: 'c', previousSessionId: null }, 'c', 's2']
  ], { session: { ...session2, masterNodeId: 'c' }, members: ['c', 'd'] })
  check('an instance', [['InstanceCreated', { instanceId: 'i2', modelId: 'acme/y', nodeIds: ['b', 'a'] }]],
    { instances: { ...base.instances, i2: { modelId: 'acme/y', nodeIds: ['a', 'b'] } } })
  check('and its end', [['InstanceDeleted', { instanceId: 'i1', modelId: 'acme/x' }]], { instances: {} })
  check('anything else', [['TaskFailed', { taskId: 't', nodeId: 'b', instanceId: 'i1' }]], {})
  check('what is no kind at all', [['', {}], ['constructor', { nodeId: 'z' }]], {})
  t.end()
})

t.test('what one that lost touch said, and submitted again later, never was', (t) => {
  const late: readonly Brief[] = [
    ['NodeTimedOut', { nodeId: 'b' }, 'a', 's2'], ['NodeTimedOut', { nodeId: 'b' }, 'old', 's1'],
    ['SessionChanged', { sessionId: 's9', term: 9, masterNodeId: 'a', previousSessionId: null }, 'a', 's2'],
    ['MasterElected', { sessionId: 's9', term: 9, masterNodeId: 'a' }, 'a', 's2'],
    ['InstanceCreated', { instanceId: 'i9', modelId: 'm', nodeIds: [] }, 'a', 's2'],
    ['InstanceDeleted', { instanceId: 'i1' }, 'a', 's2']
  ]
  t.strictSame(new Draft(base, [sessionChanged, masterElected, ...late].map(entry)).part(),
    { ...base, session: session2 })
  t.end()
})

t.test('the same part out of a state', (t) => {
  const state = stateWith(['b', 'a'], { instances: { i1: instanceOn('i1', 'z', 'b') } })
  t.strictSame(partOf(state), {
    session: { sessionId: 's1', term: 1, masterNodeId: 'b' }, members: ['a', 'b'],
    instances: { i1: { modelId: 'acme/x', nodeIds: ['b', 'z'] } }
  })
  const states = [{}, { instances: null, topology: 1 }, { instances: { i: null }, topology: { nodes: {} } }]
  for (const odd of states) {
    t.match(partOf(odd), { session: { sessionId: '', masterNodeId: null }, members: [] })
  }
  t.end()
})

t.test('a snapshot is what was put in, without its largest keys when it is too large', (t) => {
  const state = stateWith(['a'], {
    tasks: { x: 'y'.repeat(9000) }, nodeDisk: { x: 'y'.repeat(5000) }, nodeSystem: { a: 'z'.repeat(3000) },
    gone: undefined
  })
  const part = partOf(state)
  const { gone: _, tasks: __, ...whole } = state
  t.strictSame(decodeBody(encodeBody({ part, stale: true }, state)),
    { part, stale: true, omitted: [], state: whole }, 'work in flight is not in it')
  t.strictSame(decodeBody(JSON.stringify({ part, stale: true, omitted: [], state: whole })).state, whole,
    'as older versions wrote it')
  t.ok(encodeBody({ part, stale: true }, state).length < 1000, 'it is kept deflated')
  const check = (most: number, omitted: string[]): void => {
    const body = encodeBody({ part, stale: false }, state, most)
    t.ok(Buffer.byteLength(body) <= most, `${body.length} of ${most}`)
    const cut = decodeBody(body)
    t.same(cut.omitted, omitted)
    t.notOk(omitted.some((key) => key in cut.state))
    t.equal(cut.state['sessionId'], 's1')
  }
  check(6000, ['nodeDisk'])
  check(2000, ['nodeDisk', 'nodeSystem'])
  t.throws(() => decodeBody('{"part":'), SyntaxError)
  t.end()
})

t.test('readings, times and progress are nothing of note; the rest is', (t) => {
  const health = (code: string, message: string): object =>
    ({ a: { level: 'warn', reasons: [{ code, message }] } })
  const first = stateWith(['a'], { nodeHealth: health('disk_low', '9 GiB free'),
    runners: { r: { RunnerReady: {} } }, downloads: { a: [{ DownloadOngoing: { n: 1 } }] },
    nodeResources: { a: { backends: ['cpu'], capabilityConflicts: [1] } } })
  const note = (more: object): string => noteOf({ ...first, ...more }, partOf({ ...first, ...more }))
  const same = [{ nodeMemory: { a: 1 } }, { lastSeen: { a: 'now' } },
    { nodeHealth: health('disk_low', '8 GiB free') }, { runners: { r: { RunnerRunning: {} } } },
    { downloads: { a: [{ DownloadOngoing: { n: 2 } }] } },
    { nodeResources: { a: { backends: ['cpu'], capabilityConflicts: [2] } } }, { lastEventAppliedIdx: 7 },
    { topology: { nodes: ['a'], connections: { rtt: 4 } } }]
  for (const more of same) t.equal(note(more), note({}), JSON.stringify(more))
  const other = [{ nodeHealth: health('disk_full', '') }, { tracingEnabled: true },
    { runners: { r: { RunnerFailed: { errorMessage: 'x' } } } },
    { downloads: { a: [{ DownloadCompleted: {} }] } }, { topology: { nodes: ['a', 'b'] } },
    { instances: { i: instanceOn('i', 'a') } }, { cluster: { term: 2 } },
    { nodeResources: { a: { backends: ['cuda'], capabilityConflicts: [] } } }]
  for (const more of other) t.not(note(more), note({}), JSON.stringify(more))
  t.end()
})

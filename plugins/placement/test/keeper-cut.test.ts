/** The link between a driver and its donor stays broken while the master reaches both nodes. */
import t from 'tap'
import type { NodeReport } from '../../../kernel/index.js'
import { bodyOf } from '../../runners/service.js'
import { CutLinks, SUSPECT_MS } from '../keeper/lost-nodes.js'
import { card, nodeView, runnersAre, startPlacement, type PlacementRig } from './kit.js'
import { instance, intent, spread } from './keeper-kit.js'

/** Nodes with their links, such as `m:abc a:m b:mc c:mb`; a leading "-" marks a node that is not live. */
const nodesAs = (text: string): NodeReport[] => text.split(' ').map((node) => {
  const [name = '', to = ''] = node.replace('-', '').split(':')
  const link = { ipAddress: '10.0.0.1', port: 1, rttMs: null, bytesPerSecond: null }
  return {
    view: nodeView(name, { nodeId: name, live: !node.startsWith('-') }),
    memory: null, system: null, resources: null, links: [...to].map((nodeId) => ({ nodeId, ...link }))
  }
})

interface Moment { at: number, nodes: string, cut: string[], next?: number | null }
const whole = 'm:abc a:mbc b:mac c:mab'
const without = 'm:abc a:mc b:mc c:mab'

function check (what: string, moments: Moment[], on = [spread('i', ['a', 'b', 'c'])]): void {
  t.test(what, (t) => {
    const links = new CutLinks()
    for (const { at, nodes, cut, next } of moments) {
      const cuts = links.look(on, nodesAs(nodes), at)
      t.strictSame([...cuts.cut.keys()], cut, `at ${at}`)
      if (next !== undefined) t.equal(cuts.nextMs, next, `at ${at}`)
    }
    t.end()
  })
}

check('all links are there', [{ at: 0, nodes: whole, cut: [], next: null }])
check('one that is cut for long enough', [
  { at: 0, nodes: without, cut: [], next: SUSPECT_MS },
  { at: SUSPECT_MS - 1, nodes: without, cut: [], next: 1 },
  { at: SUSPECT_MS, nodes: without, cut: ['i'], next: null }
])
check('seen from one end only', [
  { at: 0, nodes: 'm:abc a:mc b:mac c:mab', cut: [] },
  { at: SUSPECT_MS, nodes: 'm:abc a:mc b:mac c:mab', cut: ['i'] }
])
check('one that heals begins anew', [
  { at: 0, nodes: without, cut: [] },
  { at: SUSPECT_MS - 1, nodes: whole, cut: [], next: null },
  { at: SUSPECT_MS, nodes: without, cut: [], next: SUSPECT_MS }
])
check('donors need no link with each other', [
  { at: 0, nodes: 'm:abc a:mbc b:ma c:ma', cut: [], next: null }
])
check('a node that is missed is not for this', [
  { at: 0, nodes: 'm:ac a:mc -b:m c:ma', cut: [], next: null }
])
check('a node that tells of no link has not told yet', [
  { at: 0, nodes: 'm:abc a:mc b: c:mab', cut: [], next: null }
])
check('an instance on one node, and one of two that is concerned', [
  { at: 0, nodes: without, cut: [] }, { at: SUSPECT_MS, nodes: without, cut: ['both'] }
], [instance('alone', ['a']), spread('other', ['a', 'c']), spread('both', ['b', 'a'])])

const star = card('acme/star', { engine: 'star' })

/** An instance on n2 and n3 without a link between them; n1 is the master. */
async function severed (t: Parameters<typeof startPlacement>[0], excluded: string[]): Promise<PlacementRig> {
  const rig = await startPlacement(t, {
    nodes: { n1: 64, n2: 64, n3: 64 }, cards: [star], isMaster: true, config: { autoplace: [] }
  })
  const placement = intent({ instanceMeta: 'LlamaRpc', minNodes: 2, excluded })
  rig.state.instances['a'] = spread('a', ['id-n2', 'id-n3'], { placement }, 'acme/star')
  runnersAre(rig.state, 'a', { RunnerReady: {} })
  await rig.clock.advance(2000)
  join(rig, false)
  return rig
}

function join ({ state: { topology: { connections } } }: PlacementRig, session: boolean): void {
  const [edge] = connections['id-n1']!['id-n2']!
  connections['id-n2']!['id-n3'] = connections['id-n3']!['id-n2'] = [{ ...edge!, session }]
}
const nodesOf = ({ placed }: PlacementRig): string[] =>
  Object.keys(bodyOf(placed[0]!.instance).shardAssignments.nodeToRunner)

t.test('placed anew, over nodes that are linked', async (t) => {
  const rig = await severed(t, [])
  runnersAre(rig.state, 'a', { RunnerLoading: {} })
  await rig.clock.advance(SUSPECT_MS - 1000)
  t.strictSame([rig.removed, rig.placed], [[], []], 'the link may come back')
  await rig.clock.advance(2000)
  t.strictSame(rig.removed, ['a'])
  t.equal(rig.placed.length, 1)
  t.ok(nodesOf(rig).includes('id-n1'), nodesOf(rig).join())
  t.match(bodyOf(rig.placed[0]!.instance).placement, { replaces: 'a', minNodes: 2, failedOn: [] })
  t.match(rig.events.find(({ kind }) => kind === 'InstanceWaiting')?.payload,
    { instanceId: 'a', reason: 'link_lost', message: 'The link between n2 and n3 is down.' })
})

t.test('with no other place it waits for the link', async (t) => {
  const rig = await severed(t, ['id-n1'])
  runnersAre(rig.state, 'a', { RunnerLoading: {} })
  await rig.clock.advance(SUSPECT_MS + 5000)
  t.strictSame([rig.removed, rig.placed], [['a'], []])
  join(rig, true)
  await rig.clock.advance(2000)
  t.strictSame(nodesOf(rig).sort(), ['id-n2', 'id-n3'])
})

t.test('what answers stays, whatever is told of its links', async (t) => {
  const rig = await severed(t, [])
  await rig.clock.advance(SUSPECT_MS * 2)
  t.strictSame([rig.removed, rig.placed], [[], []])
})

import t from 'tap'
import { LostNodes, MISSING_MS, SESSION_GRACE_MS, SUSPECT_MS } from '../keeper/lost-nodes.js'
import { nodeView } from './kit.js'
import { instance } from './keeper-kit.js'

/**
 * The ids of the nodes at a point in time. Prefix "-" marks a missing node, "~" a missing node that other
 * nodes reach, suffix "!" a node that is leaving.
 */
interface Moment { at: number, nodes: string, age?: number, gone: string[], next?: number | null }

function check (what: string, on: string[], moments: Moment[]): void {
  t.test(what, (t) => {
    const lost = new LostNodes()
    for (const { at, nodes, age = SESSION_GRACE_MS, gone, next } of moments) {
      const views = nodes.split(' ').filter((n) => n !== '')
        .map((n) => nodeView(n, {
          nodeId: n.replace(/[-~!]/g, ''), live: !/^[-~]/.test(n), leaving: n.endsWith('!')
        }))
      const reached = new Set(nodes.split(' ').filter((n) => n.startsWith('~')).map((n) => n.slice(1)))
      const losses = lost.look(on.map((id) => instance(`on ${id}`, [id])), views, at, age, reached)
      t.strictSame([...losses.gone], gone, `at ${at}`)
      if (next !== undefined) t.equal(losses.nextMs, next, `at ${at}`)
    }
    t.end()
  })
}

check('nothing is lost while all are there', ['a', 'b'], [
  { at: 0, nodes: 'a b', gone: [], next: null }, { at: MISSING_MS * 9, nodes: 'a b', gone: [] }
])
check('a node that is missing for long enough', ['a', 'b'], [
  { at: 0, nodes: 'a -b', gone: [], next: MISSING_MS },
  { at: MISSING_MS - 1, nodes: 'a -b', gone: [], next: 1 },
  { at: MISSING_MS, nodes: 'a -b', gone: ['b'], next: null },
  { at: MISSING_MS + 1, nodes: 'a -b', gone: ['b'] }
])
check('a node that comes back begins anew', ['b'], [
  { at: 0, nodes: '-b', gone: [] },
  { at: MISSING_MS - 1, nodes: 'b', gone: [], next: null },
  { at: MISSING_MS, nodes: '-b', gone: [], next: MISSING_MS },
  { at: 2 * MISSING_MS - 1, nodes: '-b', gone: [] },
  { at: 2 * MISSING_MS, nodes: '-b', gone: ['b'] }
])
check('a start under another id loses what was placed before', ['b'], [
  { at: 0, nodes: 'b', gone: [] }, { at: 1, nodes: 'b2', gone: ['b'] }
])
check('but while a node is missing, it may be that one', ['b'], [
  { at: 0, nodes: 'a -c', gone: [], next: MISSING_MS },
  { at: MISSING_MS - 1, nodes: 'a b', gone: [] }
])
check('and it may not be for ever', ['b'], [
  { at: 0, nodes: 'a -c', gone: [] }, { at: MISSING_MS, nodes: 'a -c', gone: ['c', 'b'] }
])
check('nobody is given up for silence in a young session', ['b'], [
  { at: 0, nodes: '-b', age: 0, gone: [], next: SESSION_GRACE_MS },
  { at: MISSING_MS, nodes: '-b', age: SESSION_GRACE_MS - 1, gone: [], next: 1 },
  { at: MISSING_MS + 1, nodes: '-b', age: SESSION_GRACE_MS, gone: ['b'] }
])
check('but for another id at once', ['b'], [{ at: 0, nodes: 'b2', age: 0, gone: ['b'] }])
check('nor one missed that had said that it stops', ['b'], [
  { at: 0, nodes: 'a b!', age: 0, gone: [] }, { at: 1, nodes: 'a -b!', age: 1, gone: ['b'], next: null }
])
check('it is known since when, also from before there were instances', ['b'], [
  { at: 0, nodes: 'a -b', gone: [] }, { at: MISSING_MS, nodes: 'a -b', gone: ['b'] }
])
check('a node that others still reach is only suspect', ['a', 'b'], [
  { at: 0, nodes: 'a c ~b', gone: [], next: SUSPECT_MS },
  { at: SUSPECT_MS - 1, nodes: 'a c ~b', gone: [], next: 1 },
  { at: SUSPECT_MS, nodes: 'a c ~b', gone: ['b'], next: null }
])
check('until nobody reaches it any more', ['b'], [
  { at: 0, nodes: 'a c ~b', gone: [] },
  { at: MISSING_MS - 1, nodes: 'a c -b', gone: [], next: 1 },
  { at: MISSING_MS, nodes: 'a c -b', gone: ['b'] }
])
check('one that is linked again keeps what it has', ['b'], [
  { at: 0, nodes: 'a c ~b', gone: [] }, { at: SUSPECT_MS - 1, nodes: 'a c b', gone: [], next: null },
  { at: SUSPECT_MS, nodes: 'a c ~b', gone: [], next: SUSPECT_MS }
])

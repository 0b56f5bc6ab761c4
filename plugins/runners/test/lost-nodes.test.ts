import t from 'tap'
import type { NodeView } from '../../../kernel/index.js'
import { LostNodes, MISSING_MS, SESSION_GRACE_MS } from '../lost-nodes.js'
import { soloInstance } from '../shapes.js'
import { card } from './samples.js'

const instance = (nodeId: string) =>
  soloInstance({ instanceId: `on ${nodeId}`, runnerId: `runner of ${nodeId}`, nodeId }, card('m'))

const view = (nodeId: string, live: boolean): NodeView =>
  ({ nodeId, installId: `install ${nodeId}`, name: nodeId, self: false, live, master: false, apiUrl: null })

/** What is there at a time: live nodes by name, missing ones with a "-" before theirs. */
interface Moment { at: number, nodes: string, age?: number, gone: string[] }

function check (what: string, on: string[], moments: Moment[]): void {
  t.test(what, (t) => {
    const lost = new LostNodes()
    for (const { at, nodes, age = SESSION_GRACE_MS, gone } of moments) {
      const views = nodes.split(' ').filter((n) => n !== '')
        .map((n) => view(n.replace('-', ''), !n.startsWith('-')))
      t.strictSame(lost.gone(on.map(instance), views, at, age), gone.map((n) => `on ${n}`), `at ${at}`)
    }
    t.end()
  })
}

check('nothing is lost while all are there', ['a', 'b'], [
  { at: 0, nodes: 'a b', gone: [] }, { at: MISSING_MS * 9, nodes: 'a b', gone: [] }
])
check('a node that is missing for long enough', ['a', 'b'], [
  { at: 0, nodes: 'a -b', gone: [] },
  { at: MISSING_MS - 1, nodes: 'a -b', gone: [] },
  { at: MISSING_MS, nodes: 'a -b', gone: ['b'] },
  { at: MISSING_MS + 1, nodes: 'a -b', gone: ['b'] }
])
check('a node that comes back begins anew', ['b'], [
  { at: 0, nodes: '-b', gone: [] },
  { at: MISSING_MS - 1, nodes: 'b', gone: [] },
  { at: MISSING_MS, nodes: '-b', gone: [] },
  { at: 2 * MISSING_MS - 1, nodes: '-b', gone: [] },
  { at: 2 * MISSING_MS, nodes: '-b', gone: ['b'] }
])
check('a start under another id loses what was placed before', ['b'], [
  { at: 0, nodes: 'b', gone: [] }, { at: 1, nodes: 'b2', gone: ['b'] }
])
check('nobody is given up for silence in a young session', ['b'], [
  { at: 0, nodes: '-b', age: 0, gone: [] },
  { at: MISSING_MS, nodes: '-b', age: MISSING_MS, gone: [] },
  { at: SESSION_GRACE_MS - 1, nodes: '-b', age: SESSION_GRACE_MS - 1, gone: [] },
  { at: SESSION_GRACE_MS, nodes: '-b', age: SESSION_GRACE_MS, gone: [] },
  { at: SESSION_GRACE_MS + MISSING_MS, nodes: '-b', age: SESSION_GRACE_MS + MISSING_MS, gone: ['b'] }
])
check('but for another id at once', ['b'], [{ at: 0, nodes: 'b2', age: 0, gone: ['b'] }])
check('without instances nothing is lost', [], [{ at: 0, nodes: '-b', gone: [] }])

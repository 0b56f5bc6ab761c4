import { Scene, type Play } from './scene.js'
import type { MessageOf } from '../../plugins/cluster/election/protocol.js'

/** n4 stays master of three nodes or of two; the other side elects its own master; then the sides meet. */
function meeting (withOldMaster: readonly string[], others: readonly string[]): Play['run'] {
  return (changes) => {
    const scene = new Scene('A', 5, changes)
    scene.begin()
    scene.split(withOldMaster, others)
    scene.until('the other side to elect a master', () => scene.elections === 2)
    scene.run(8000)
    const [winners, losers] = withOldMaster.length > others.length
      ? [withOldMaster, others]
      : [others, withOldMaster]
    const { sid } = scene.node(winners[0]!).leader ?? {}
    for (const id of [...winners, ...losers]) scene.stream(`at-${id}`, id)
    scene.world.heal()
    scene.run(10_000)
    const one = scene.world.nodes.every(({ leader }) => leader?.sid === sid)
    scene.expect('the larger side keeps its session', one)
    scene.expect('its streams continue', winners.every((id) => scene.ends(`at-${id}`) === 0))
    scene.expect('the others end once', losers.every((id) => scene.ends(`at-${id}`) === 1))
    scene.expect('it caused no election', scene.elections === 2)
    return scene.finish()
  }
}

export const SESSIONS: readonly Play[] = [
  {
    name: 'two masters meet, the old one has more followers',
    run: meeting(['n2', 'n3', 'n4'], ['n0', 'n1'])
  },
  {
    name: 'two masters meet, the new one has more followers',
    run: meeting(['n3', 'n4'], ['n0', 'n1', 'n2'])
  },
  {
    name: 'a master that was paused enters nothing before it is confirmed',
    run (changes) {
      const scene = new Scene('A', 3, changes)
      scene.begin()
      scene.world.pause(scene.node('n2'))
      scene.until('another master', () => scene.elections === 2)
      scene.node('n2').resume('timers')
      scene.command('late', 'n2')
      scene.expect('it is not entered', !scene.holds('n2', 'late'))
      return scene.finish()
    }
  },
  {
    name: 'a short pause of the master changes nothing',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      scene.begin()
      scene.stream('stream', 'n0')
      scene.world.pause(scene.node('n2'))
      scene.run(4000)
      scene.node('n2').resume('messages')
      scene.run(5000)
      scene.command('then', 'n2')
      scene.until('it acknowledges again', () => scene.acked('then'))
      scene.expect('no election', scene.elections === 1 && scene.ends('stream') === 0)
      return scene.finish()
    }
  },
  {
    name: 'a command for another session is refused',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      scene.begin()
      const change = { kind: 'command', payload: null } as const
      const old: MessageOf<'command'> = { kind: 'command', id: 'old', sid: 'other', change }
      const said = scene.answers(() => { scene.say('n0', 'n2', old) })
      const answers = said.flatMap((message) => message.kind === 'command-answer' ? [message] : [])
      const told = answers.some(({ outcome }) => !outcome.ok && outcome.code === 'stale_session')
      scene.expect('it is notified', told)
      scene.expect('it is not entered', !scene.holds('n2', 'old'))
      return scene.wrong
    }
  },
  {
    name: 'a command runs once, sent to two nodes and after a failover',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      scene.begin()
      scene.command('once', 'n0')
      scene.command('once', 'n1')
      scene.until('it is acknowledged', () => scene.acked('once'))
      scene.world.crash(scene.node('n2'))
      scene.until('a new master', () => scene.elections === 2)
      scene.run(1000)
      scene.command('once', 'n0')
      scene.run(3000)
      const entries = scene.node('n1').disk.log.filter(({ id }) => id === 'once').length
      scene.expect('one entry', entries === 1)
      return scene.finish()
    }
  },
  {
    name: 'voters change one at a time',
    run (changes) {
      const scene = new Scene('B', 5, changes, 3)
      const change = (id: string, list: readonly string[]): void => {
        scene.node('n0').step((core) => { core.changeVoters(id, list, scene.world.now) })
      }
      scene.begin()
      change('two', ['n0', 'n1', 'n2', 'n3', 'n4'])
      scene.run(500)
      scene.expect('two at once are refused', scene.world.check.refused.get('two') === 'voters_invalid')
      change('one', ['n0', 'n1', 'n2', 'n3'])
      scene.until('one is taken', () => scene.acked('one'))
      scene.expect('it counts', scene.world.voters(scene.node('n0')).length === 4)
      scene.catch((from, _to, { kind }) => kind === 'ack' && from !== 'n2')
      change('three', ['n0', 'n1', 'n2', 'n3', 'n4'])
      scene.run(300)
      change('four', ['n0', 'n1', 'n2', 'n3'])
      scene.run(300)
      const code = scene.world.check.refused.get('four')
      scene.expect('the next waits for the one before', code === 'voters_busy')
      return scene.finish()
    }
  },
  {
    name: 'a master leaves the voters after it resigned, not before',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      const leave = (id: string): void => {
        scene.node('n0').step((core) => { core.changeVoters(id, ['n0', 'n1'], scene.world.now) })
      }
      scene.begin()
      leave('too-early')
      scene.run(500)
      scene.expect('it is refused', scene.world.check.refused.get('too-early') === 'voters_self')
      scene.node('n2').step((core) => { core.resign(scene.world.now) })
      scene.until('another master', () => scene.elections === 2)
      scene.run(1000)
      leave('out')
      scene.until('it is out', () => scene.acked('out'))
      scene.world.crash(scene.node('n1'))
      scene.run(15_000)
      scene.expect('n2 is not elected without an answer', scene.elections === 2)
      return scene.finish()
    }
  },
  {
    name: 'a worker refuses a directive of a master that it does not follow any more',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      scene.begin()
      const { term = 0, sid = '' } = scene.node('n2').leader ?? {}
      const directive = { token: { term, master: 'n2' }, sid, instance: 'i1' }
      scene.world.direct(scene.node('n2'), scene.node('n0'), directive)
      scene.run(100)
      scene.expect('it ran', scene.world.check.directives === 1)
      scene.world.crash(scene.node('n2'))
      scene.until('a new master', () => scene.elections === 2)
      scene.run(1000)
      scene.world.direct(scene.node('n2'), scene.node('n0'), directive)
      scene.run(100)
      scene.expect('now it does not run', scene.world.check.directives === 1)
      return scene.finish()
    }
  }
]

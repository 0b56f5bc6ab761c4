import { Scene, type Play } from './scene.js'
import type { Heartbeat } from '../../plugins/cluster/election/protocol.js'

/** Schedules in which early drafts of the election algorithm failed. */
export const FLAWS: readonly Play[] = [
  {
    name: 'an append that was overtaken does not shorten the log',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      scene.begin()
      scene.world.pause(scene.node('n1'))
      scene.catch((_from, to, { kind }) => kind === 'append' && to === 'n0')
      scene.command('first', 'n2')
      scene.pass()
      scene.command('second', 'n2')
      scene.until('the second is acknowledged', () => scene.acked('second'))
      scene.late('append', 'n0')
      scene.expect('n0 still holds it', scene.holds('n0', 'second'))
      scene.world.crash(scene.node('n2'))
      scene.node('n1').resume('timers')
      scene.until('a new master', () => scene.elections === 2)
      return scene.finish()
    }
  },
  {
    name: 'a candidate that accepted a master does not become one',
    run (changes) {
      const scene = new Scene('A', 3, changes)
      scene.begin()
      scene.split(['n2'], ['n0', 'n1'])
      scene.catch((_from, to, { kind }) => kind === 'claim-answer' && to === 'n1')
      scene.until('n1 claims', () => scene.node('n1').core?.role === 'claim')
      const { leader } = scene.node('n2')
      const term = (scene.node('n1').disk.hardState?.term ?? 0) + 1
      scene.expect('n2 leads', leader !== null)
      if (leader === null) return scene.wrong
      const beat: Heartbeat = {
        kind: 'heartbeat',
        count: 1000,
        boot: leader.boot,
        role: 'master',
        leader: { ...leader, term },
        promised: term,
        fresh: { term, seq: 5 },
        followers: [],
        age: 9000,
        durable: true
      }
      scene.say('n2', 'n1', beat)
      scene.expect('n1 follows n2', scene.node('n1').leader?.sid === leader.sid)
      scene.run(1500)
      scene.expect('no second session', scene.elections === 1)
      return [...scene.wrong, ...scene.world.check.violations]
    }
  },
  {
    name: 'a voter of a new master acknowledges nothing to the old one',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      scene.begin()
      // The old master n2 reaches no node and receives only from n0; appends from n1 to n0 arrive late.
      scene.catch((from, to, { kind }) => from === 'n2' || (from === 'n1' && to === 'n2') ||
        (from === 'n1' && to === 'n0' && (kind === 'append' || kind === 'heartbeat') && scene.elections > 1))
      scene.command('lost', 'n2')
      scene.until('n1 is elected with the vote of n0', () => scene.elections === 2)
      scene.late('append', 'n0')
      scene.run(500)
      return scene.finish()
    }
  },
  {
    name: 'old messages do not confirm a master that was paused',
    run (changes) {
      const scene = new Scene('A', 3, changes)
      scene.begin()
      scene.world.pause(scene.node('n2'))
      scene.until('another master', () => scene.elections === 2)
      scene.run(3000)
      const sid = scene.node('n1').leader?.sid
      scene.stream('stream', 'n1')
      scene.node('n2').resume('timers')
      scene.run(10_000)
      scene.expect('the session of the new master continues', scene.node('n2').leader?.sid === sid)
      scene.expect('its stream was not ended', scene.ends('stream') === 0)
      scene.expect('no other node was elected', scene.elections === 2)
      return scene.finish()
    }
  },
  {
    name: 'a master that was paused probes until a node answers, quorum 1',
    run (changes) {
      const scene = new Scene('A', 3, changes)
      scene.begin()
      scene.world.pause(scene.node('n2'))
      scene.catch((from, to) => from === 'n2' || to === 'n2')
      scene.until('another master', () => scene.elections === 2)
      const sid = scene.node('n1').leader?.sid
      scene.node('n2').resume('timers')
      scene.late('heartbeat', 'n2')
      scene.command('late', 'n2')
      scene.run(3000)
      scene.expect('its commands are not entered', !scene.holds('n2', 'late'))
      scene.pass()
      scene.run(10_000)
      scene.expect('it follows the new master', scene.node('n2').leader?.sid === sid)
      scene.expect('no other node was elected', scene.elections === 2)
      return scene.finish()
    }
  },
  {
    name: 'a master that was paused yields to another, whoever followed it then',
    run (changes) {
      const scene = new Scene('A', 3, changes)
      scene.begin()
      scene.world.pause(scene.node('n2'))
      scene.catch((from, to) => from === 'n2' || to === 'n2')
      scene.until('another master', () => scene.elections === 2)
      scene.run(3000)
      scene.node('n2').resume('timers')
      const beats = scene.caught('heartbeat')
      const old = beats.find(({ from }) => from.id === 'n0')
      const other = beats.find(({ message }) => message.kind === 'heartbeat' && message.role === 'master')
      for (const beat of [old, other]) if (beat !== undefined) scene.say(beat.from.id, 'n2', beat.message)
      scene.expect('it yields', scene.node('n2').leader?.master === 'n1')
      return scene.finish()
    }
  },
  {
    name: 'a master that was paused and is left alone continues, quorum 1',
    run (changes) {
      const scene = new Scene('A', 3, changes)
      scene.begin()
      scene.world.crash(scene.node('n0'))
      scene.world.crash(scene.node('n1'))
      scene.world.pause(scene.node('n2'))
      scene.run(5000)
      scene.node('n2').resume('timers')
      scene.run(7000)
      scene.command('alone', 'n2')
      scene.until('it acknowledges', () => scene.acked('alone'))
      return scene.finish()
    }
  },
  {
    name: 'the only voter continues after a pause, majority',
    run (changes) {
      const scene = new Scene('B', 1, changes)
      scene.begin()
      scene.world.pause(scene.node('n0'))
      scene.run(5000)
      scene.node('n0').resume('timers')
      scene.run(2000)
      scene.command('alone', 'n0')
      scene.until('it acknowledges', () => scene.acked('alone'))
      scene.expect('no election', scene.elections === 1)
      return scene.finish()
    }
  },
  {
    name: 'an old heartbeat does not count followers that left, quorum 1',
    run (changes) {
      const scene = new Scene('A', 3, changes)
      scene.begin()
      scene.catch((from, to, { kind }) => from === 'n2' && to === 'n1' && kind === 'heartbeat')
      scene.until('a heartbeat is on its way', () => scene.caught('heartbeat').length > 0)
      scene.world.pause(scene.node('n2'))
      scene.until('another master', () => scene.elections === 2)
      scene.run(3000)
      const sid = scene.node('n1').leader?.sid
      scene.late('heartbeat', 'n1')
      scene.run(2000)
      scene.expect('the new master stays', sid !== undefined && scene.node('n0').leader?.sid === sid)
      scene.expect('no other node was elected', scene.elections === 2)
      return scene.finish()
    }
  },
  {
    name: 'an append from before a restart does not roll back what the disk holds',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      scene.begin()
      scene.world.pause(scene.node('n1'))
      scene.command('before', 'n2')
      scene.until('it is acknowledged', () => scene.acked('before'))
      scene.world.crash(scene.node('n0'))
      scene.catch((_from, to, { kind }) => kind === 'append' && to === 'n0')
      scene.world.start(scene.node('n0'))
      scene.until('n2 sends all of it again', () => scene.caught('append').length > 0)
      scene.pass()
      scene.command('after', 'n2')
      scene.until('this too is acknowledged', () => scene.acked('after'))
      scene.late('append', 'n0')
      scene.expect('n0 still holds it', scene.holds('n0', 'after'))
      return scene.finish()
    }
  }
]

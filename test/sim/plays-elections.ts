import { Scene, type Play } from './scene.js'
import type { Message, MessageOf } from '../../plugins/cluster/election/protocol.js'

const FRESH = { term: 1000, seq: 1000 }

const claimOf = (master: string, term: number, fresh = FRESH): MessageOf<'claim'> =>
  ({ kind: 'claim', leader: { sid: `sid-${master}-${term}`, master, term, boot: 1 }, fresh })

const votes = (messages: readonly Message[]): string[] =>
  messages.flatMap((message) => message.kind === 'claim-answer' ? [message.vote] : [])

/** Three nodes whose master n2 has left, while n0 and n1 have not noticed it yet. */
function withoutMaster (scene: Scene): void {
  scene.begin()
  scene.world.crash(scene.node('n2'))
  scene.run(100)
}

/** One link is cut: n0 receives nothing from the master n2, while n1 receives from both. */
function oneLinkCut (mode: 'A' | 'B'): Play['run'] {
  return (changes) => {
    const scene = new Scene(mode, 3, changes)
    scene.begin()
    scene.stream('stream', 'n0')
    scene.split(['n0'], ['n2'])
    scene.run(30_000)
    scene.expect('no election while it is cut', scene.elections === 1)
    scene.world.heal()
    scene.run(10_000)
    scene.expect('no election after it', scene.elections === 1)
    scene.expect('the stream continues', scene.ends('stream') === 0)
    return scene.finish()
  }
}

/** A pre-vote for a candidate with an empty log. */
function staleClaim (mode: 'A' | 'B'): Play['run'] {
  return (changes) => {
    const scene = new Scene(mode, 3, changes)
    withoutMaster(scene)
    const claim = claimOf('n1', 50, { term: 0, seq: 0 })
    const given = votes(scene.answers(() => { scene.say('n1', 'n0', claim) }))
    scene.expect('it is refused', given.join() === 'no')
    return scene.wrong
  }
}

export const ELECTIONS: readonly Play[] = [
  { name: 'one cut link causes no election, quorum 1', run: oneLinkCut('A') },
  { name: 'one cut link causes no election, majority', run: oneLinkCut('B') },
  { name: 'a candidate that lacks an entry is refused, quorum 1', run: staleClaim('A') },
  { name: 'a candidate that lacks an entry is refused, majority', run: staleClaim('B') },
  {
    name: 'the node with the newest log is elected, not the one with the greatest id',
    run (changes) {
      const scene = new Scene('A', 3, changes)
      scene.begin()
      scene.catch((_from, to, { kind }) => kind === 'append' && to === 'n1')
      scene.command('kept', 'n2')
      scene.until('it is acknowledged', () => scene.acked('kept'))
      scene.world.crash(scene.node('n2'))
      scene.until('n0 is elected', () => scene.node('n0').isMaster, 2000)
      return scene.finish()
    }
  },
  {
    name: 'a candidate without an answer is not elected, majority',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      withoutMaster(scene)
      scene.catch((_from, _to, { kind }) => kind === 'claim-answer')
      scene.until('n1 claims', () => scene.node('n1').core?.role === 'claim')
      scene.run(3000)
      scene.expect('n1 is not master', scene.elections === 1)
      return scene.finish()
    }
  },
  {
    name: 'one refusal ends a candidacy, quorum 1',
    run (changes) {
      const scene = new Scene('A', 3, changes)
      withoutMaster(scene)
      scene.catch((_from, to, { kind }) => kind === 'claim-answer' && to === 'n1')
      scene.until('n1 claims', () => scene.caught('claim-answer').length > 0)
      const [answer] = scene.caught('claim-answer')
      if (answer?.message.kind === 'claim-answer') scene.say('n0', 'n1', { ...answer.message, vote: 'no' })
      scene.run(50)
      scene.expect('n1 is not master', scene.elections === 1)
      return scene.finish()
    }
  },
  {
    name: 'a follower that was paused does not elect itself',
    run (changes) {
      const scene = new Scene('A', 3, changes)
      scene.begin()
      scene.world.pause(scene.node('n0'))
      scene.run(10_000)
      scene.node('n0').resume('timers')
      scene.run(5000)
      scene.expect('no election', scene.elections === 1)
      return scene.finish()
    }
  },
  {
    name: 'a pause of all nodes causes no election',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      scene.begin()
      for (const node of scene.world.nodes) scene.world.pause(node)
      scene.run(20_000)
      for (const node of scene.world.nodes) node.resume('timers')
      scene.run(10_000)
      scene.expect('no election', scene.elections === 1)
      return scene.finish()
    }
  },
  {
    name: 'one vote per term',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      withoutMaster(scene)
      const given = votes(scene.answers(() => { scene.say('n1', 'n0', claimOf('n1', 50)) }))
      const other = votes(scene.answers(() => { scene.say('n2', 'n0', claimOf('n2', 50)) }))
      scene.expect('n1 has the vote', given.join() === 'yes')
      scene.expect('n2 has not', other.join() === 'no')
      return scene.wrong
    }
  },
  {
    name: 'one vote per term, over a restart',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      withoutMaster(scene)
      const given = votes(scene.answers(() => { scene.say('n1', 'n0', claimOf('n1', 50)) }))
      scene.expect('n1 has the vote', given.join() === 'yes')
      scene.world.crash(scene.node('n0'))
      scene.world.start(scene.node('n0'))
      scene.world.start(scene.node('n2'))
      scene.run(60)
      const other = votes(scene.answers(() => { scene.say('n2', 'n0', claimOf('n2', 50)) }))
      scene.expect('n2 does not get the vote', other.join() === 'no')
      return scene.wrong
    }
  },
  {
    name: 'a failing disk gives no vote',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      withoutMaster(scene)
      scene.node('n0').diskFault = 'failing'
      const given = votes(scene.answers(() => { scene.say('n1', 'n0', claimOf('n1', 50)) }))
      scene.expect('n0 abstains', given.join() === 'abstain')
      return scene.wrong
    }
  },
  {
    name: 'one failing disk does not stop the cluster',
    run (changes) {
      const scene = new Scene('A', 3, changes)
      scene.begin()
      scene.node('n1').diskFault = 'failing'
      scene.world.crash(scene.node('n2'))
      scene.until('n0 is master, n1 has abstained', () => scene.node('n0').isMaster)
      scene.until('n1 follows', () => scene.node('n1').leader?.master === 'n0')
      scene.command('works', 'n0')
      scene.until('a command works', () => scene.acked('works'))
      const { storing, eligible } = scene.node('n1').core!.status(scene.world.now)
      scene.expect('n1 reports it and cannot be master', !storing && !eligible)
      return scene.finish()
    }
  },
  {
    name: 'a pre-vote of an old term is answered with the term',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      withoutMaster(scene)
      const ballot = { eligible: true, ...FRESH, weight: 0, nodeId: 'n1' }
      const answer = scene.answers(() => { scene.say('n1', 'n0', { kind: 'ballot', term: 1, ballot }) })
      scene.expect('n1 learns the term', answer.some(({ kind }) => kind === 'stale'))
      return scene.wrong
    }
  },
  {
    name: 'the smaller side of a cut has no master and acknowledges nothing, majority',
    run (changes) {
      const scene = new Scene('B', 5, changes)
      scene.begin()
      scene.split(['n4', 'n3'], ['n0', 'n1', 'n2'])
      scene.command('nowhere', 'n4')
      scene.run(20_000)
      const { quorum, role } = scene.node('n4').core!.status(scene.world.now)
      scene.expect('n4 stopped and reports a lost quorum', role !== 'master' && quorum === 'lost')
      scene.expect('only the other side elected', scene.elections === 2)
      return scene.finish()
    }
  },
  {
    name: 'a master that resigns is replaced without a timeout',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      scene.begin()
      scene.node('n2').step((core) => { core.resign(scene.world.now) })
      scene.until('another master', () => scene.elections === 2, 2500)
      scene.expect('not the same one', !scene.node('n2').isMaster)
      return scene.finish()
    }
  }
]

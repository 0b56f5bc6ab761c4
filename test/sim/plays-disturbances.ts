import { Scene, type Play } from './scene.js'

/** Milliseconds that a restarting master is absent. */
const AWAY_MS = 150

/** Disturbances that must not cause an election. */
export const DISTURBANCES: readonly Play[] = [
  {
    name: 'five nodes that start at once have one master within five seconds',
    run (changes) {
      const scene = new Scene('B', 5, changes)
      for (const node of scene.world.nodes) scene.world.start(node)
      scene.until('all follow', () => scene.world.nodes.every(({ leader }) => leader !== null), 5000)
      scene.expect('one election', scene.elections === 1)
      return scene.finish()
    }
  },
  {
    name: 'a link that flaps for a minute causes no election',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      const [a, b] = [scene.node('n0'), scene.node('n2')]
      scene.begin()
      for (let i = 0; i < 20; i++) {
        scene.world.cut(a, b, i % 2 === 0 ? 'hole' : 'reset')
        scene.run(1500)
        scene.world.heal()
        scene.run(1500)
      }
      scene.expect('no election', scene.elections === 1)
      return scene.finish()
    }
  },
  {
    name: 'a master that restarts at once is missed at once',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      scene.begin()
      for (let i = 2; i <= 6; i++) {
        const master = scene.world.master()
        scene.expect('there is a master', master !== undefined)
        if (master === undefined) break
        scene.world.crash(master)
        scene.run(AWAY_MS)
        scene.world.start(master)
        scene.until(`master number ${i}`, () => scene.elections === i, 5000)
        scene.until('all follow it', () => scene.world.nodes.every(({ leader }) => leader !== null), 5000)
        scene.run(2000)
      }
      return scene.finish()
    }
  },
  {
    name: 'a node that lost all others reports it, and the others continue',
    run (changes) {
      const scene = new Scene('B', 3, changes)
      scene.begin()
      scene.split(['n0'], ['n1', 'n2'])
      scene.run(10_000)
      const alone = scene.node('n0').core!.status(scene.world.now)
      const lone = alone.liveNodes.length === 1 && alone.knownNodes.length > 1
      scene.expect('alone, stale, without quorum', lone && alone.stale && alone.quorum === 'lost')
      const other = scene.node('n2').core!.status(scene.world.now)
      const seen = other.partition && other.quorum === 'ok'
      scene.expect('the others see a partition and have their quorum', seen)
      scene.expect('no election', scene.elections === 1)
      return scene.finish()
    }
  }
]

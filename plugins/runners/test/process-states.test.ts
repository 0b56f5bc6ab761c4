import t from 'tap'
import { kindOf, mayFollow, NEXT_STATUS, serves, type StatusKind } from '../process/states.js'

const KINDS = Object.keys(NEXT_STATUS) as StatusKind[]

t.test('which status may follow which, all of them', (t) => {
  const allowed: Record<StatusKind, string> = {
    RunnerIdle: 'Connecting ShuttingDown Failed',
    RunnerConnecting: 'Idle Connected ShuttingDown Failed',
    RunnerConnected: 'Idle Loading ShuttingDown Failed',
    RunnerLoading: 'Idle Loading Loaded ShuttingDown Failed',
    RunnerLoaded: 'Idle WarmingUp ShuttingDown Failed',
    RunnerWarmingUp: 'Idle Ready ShuttingDown Failed',
    RunnerReady: 'Idle Running ShuttingDown Failed',
    RunnerRunning: 'Idle Ready ShuttingDown Failed',
    RunnerShuttingDown: 'Shutdown',
    RunnerShutdown: '',
    RunnerFailed: 'ShuttingDown'
  }
  for (const from of KINDS) {
    for (const to of KINDS) {
      const expected = allowed[from].split(' ').includes(to.replace('Runner', ''))
      t.equal(mayFollow(from, to), expected, `${from} to ${to}`)
    }
  }
  t.end()
})

t.test('tags', (t) => {
  t.equal(kindOf({ RunnerLoading: { layersLoaded: 1, totalLayers: 2 } }), 'RunnerLoading')
  t.strictSame(KINDS.filter(serves), ['RunnerReady', 'RunnerRunning'])
  t.end()
})

// Number of runs per minute of the election simulator, on one core.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../lib/paths.mjs'
import { figure } from '../lib/report.mjs'

export default {
  title: 'The election\'s simulator',
  async run ({ short }) {
    const script = join(root, '.tap/sim/test/sim/run.js')
    if (!existsSync(script)) {
      execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p',
        join(root, 'test/sim/tsconfig.json')], { stdio: 'inherit' })
    }
    const runs = short ? 200 : 5000
    const rows = []
    const data = []
    for (const mode of ['A', 'B']) {
      const start = performance.now()
      const args = [script, '--runs', String(runs), '--seed', '1', '--mode', mode]
      const text = execFileSync(process.execPath, args, {
        encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit']
      })
      const minutes = (performance.now() - start) / 60_000
      data.push({ mode, runs, minutes, said: JSON.parse(text.trim().split('\n').at(-1)) })
      rows.push([mode === 'A' ? '1' : 'majority', String(runs), figure(runs / minutes)])
    }
    return {
      columns: ['quorum', 'runs', 'per minute'],
      rows,
      targets: [],
      notes: ['one process; a run is 105 virtual seconds of 1 to 7 nodes; with the start of Node'],
      data
    }
  }
}

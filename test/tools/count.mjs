// Counts the lines of the product, by folder:  npm run count
// With --check it fails for each folder over its budget:  npm run lint
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Maximum number of lines per folder. A budget may rise only by what another folder gives up. */
const BUDGET = {
  kernel: 167,
  'kernel/api': 2133,
  'kernel/boot': 1569,
  'kernel/build': 340,
  'kernel/cli': 3193,
  'kernel/config': 1957,
  'kernel/http': 3126,
  'kernel/net': 717,
  'kernel/observe': 500,
  'kernel/plugins': 2376,
  'kernel/state': 1349,
  'kernel/testing': 415,
  'kernel/untrusted': 219,
  plugins: 38,
  'plugins/access': 1309,
  'plugins/approvals': 568,
  'plugins/audit': 1083,
  'plugins/capabilities': 3464,
  'plugins/capabilities-stt': 2607,
  'plugins/capabilities-tts': 5063,
  'plugins/chat': 6668,
  'plugins/cluster': 8609,
  'plugins/dashboard': 9189,
  'plugins/devices': 2715,
  'plugins/diagnostics': 2482,
  'plugins/event-log': 4030,
  'plugins/llama-cpp': 6595,
  'plugins/logs': 815,
  'plugins/mcp': 661,
  'plugins/openai-programs': 1447,
  'plugins/packages': 682,
  'plugins/placement': 7574,
  'plugins/realtime': 1626,
  'plugins/relay': 2551,
  'plugins/runners': 13437,
  'plugins/staging': 10769,
  'plugins/steward': 2860,
  'plugins/tracing': 1602,
  'plugins/upstreams': 981,
  'plugins/wyoming': 506
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const git = ['ls-files', '-z', ...['ts', 'tsx', 'mjs', 'css', 'html'].flatMap((kind) =>
  [`kernel/*.${kind}`, `plugins/*.${kind}`])]
const files = execFileSync('git', git, { cwd: root, encoding: 'utf8' }).split('\0')
  .filter((path) => path !== '' && !path.includes('/test/'))

const counted = new Map(Object.keys(BUDGET).map((folder) => [folder, 0]))
for (const path of files) {
  const [top, below] = path.split('/')
  const folder = path.split('/').length > 2 ? `${top}/${below}` : top
  const lines = readFileSync(root + path, 'utf8').split('\n').length - 1
  counted.set(folder, (counted.get(folder) ?? 0) + lines)
}

const sum = (values) => values.reduce((all, one) => all + one, 0)
const row = (name, lines, budget) =>
  `${name.padEnd(26)}${String(lines).padStart(8)}${String(budget).padStart(8)}\n`
if (process.argv.includes('--check')) {
  const over = [...counted].filter(([folder, lines]) => lines > (BUDGET[folder] ?? 0))
  for (const [folder, lines] of over) {
    process.stderr.write(`${folder}: ${lines} lines, budget ${BUDGET[folder] ?? 0} (test/tools/count.mjs)\n`)
  }
  if (over.length > 0) process.exitCode = 1
} else {
  process.stdout.write(row('', 'lines', 'budget'))
  for (const top of ['kernel', 'plugins']) {
    const within = [...counted].filter(([folder]) => folder.split('/')[0] === top)
    for (const [folder, lines] of within.sort()) process.stdout.write(row(folder, lines, BUDGET[folder] ?? 0))
  }
  process.stdout.write(row(`${files.length} files`, sum([...counted.values()]), sum(Object.values(BUDGET))))
}

// Counts the lines of the product, by folder:  npm run count
// With --check it fails for each folder over its budget:  npm run lint
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Lines that each folder may have. A budget may fall, and rises only by what another folder gives up. */
const BUDGET = {
  kernel: 164,
  'kernel/api': 2075,
  'kernel/boot': 1532,
  'kernel/build': 391,
  'kernel/cli': 3139,
  'kernel/config': 2120,
  'kernel/http': 3569,
  'kernel/net': 700,
  'kernel/observe': 551,
  'kernel/plugins': 2455,
  'kernel/state': 1450,
  'kernel/testing': 391,
  'kernel/untrusted': 222,
  plugins: 32,
  'plugins/access': 379,
  'plugins/approvals': 642,
  'plugins/audit': 1443,
  'plugins/capabilities': 3600,
  'plugins/capabilities-tts': 5216,
  'plugins/chat': 7390,
  'plugins/cluster': 9433,
  'plugins/dashboard': 10183,
  'plugins/devices': 2780,
  'plugins/diagnostics': 2634,
  'plugins/event-log': 4422,
  'plugins/llama-cpp': 7727,
  'plugins/logs': 1312,
  'plugins/mcp': 670,
  'plugins/packages': 746,
  'plugins/placement': 7165,
  'plugins/relay': 2824,
  'plugins/runners': 12684,
  'plugins/staging': 11869,
  'plugins/steward': 3544,
  'plugins/tracing': 1928
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

// Counts the lines of the product, by folder:  npm run count
// With --check it fails for each folder over its budget:  npm run lint
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Maximum number of lines per folder. A budget may rise only by what another folder gives up. */
const BUDGET = {
  kernel: 164,
  'kernel/api': 2067,
  'kernel/boot': 1520,
  'kernel/build': 390,
  'kernel/cli': 3131,
  'kernel/config': 2114,
  'kernel/http': 3545,
  'kernel/net': 701,
  'kernel/observe': 539,
  'kernel/plugins': 2448,
  'kernel/state': 1440,
  'kernel/testing': 388,
  'kernel/untrusted': 220,
  plugins: 32,
  'plugins/access': 379,
  'plugins/approvals': 638,
  'plugins/audit': 1431,
  'plugins/capabilities': 3581,
  'plugins/capabilities-tts': 5626,
  'plugins/chat': 7467,
  'plugins/cluster': 9293,
  'plugins/dashboard': 10193,
  'plugins/devices': 2778,
  'plugins/diagnostics': 2634,
  'plugins/event-log': 4345,
  'plugins/llama-cpp': 7804,
  'plugins/logs': 1297,
  'plugins/mcp': 687,
  'plugins/packages': 745,
  'plugins/placement': 7124,
  'plugins/relay': 2781,
  'plugins/runners': 12144,
  'plugins/staging': 11880,
  'plugins/steward': 3563,
  'plugins/tracing': 1933
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

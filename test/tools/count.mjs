// Counts the lines of the product, by folder:  npm run count
// With --check it fails for each folder over its budget:  npm run lint
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Maximum number of lines per folder. A budget may rise only by what another folder gives up. */
const BUDGET = {
  kernel: 166,
  'kernel/api': 2074,
  'kernel/boot': 1632,
  'kernel/build': 390,
  'kernel/cli': 3128,
  'kernel/config': 2071,
  'kernel/http': 3235,
  'kernel/net': 703,
  'kernel/observe': 528,
  'kernel/plugins': 2434,
  'kernel/state': 1410,
  'kernel/testing': 430,
  'kernel/untrusted': 220,
  plugins: 32,
  'plugins/access': 378,
  'plugins/approvals': 626,
  'plugins/audit': 1420,
  'plugins/capabilities': 3719,
  'plugins/capabilities-tts': 5602,
  'plugins/chat': 7398,
  'plugins/cluster': 9253,
  'plugins/dashboard': 9555,
  'plugins/devices': 2745,
  'plugins/diagnostics': 2548,
  'plugins/event-log': 4187,
  'plugins/llama-cpp': 7549,
  'plugins/logs': 1268,
  'plugins/mcp': 681,
  'plugins/packages': 742,
  'plugins/placement': 7076,
  'plugins/relay': 2740,
  'plugins/runners': 12394,
  'plugins/staging': 11718,
  'plugins/steward': 3551,
  'plugins/tracing': 1890
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

// Merges the reports of clients in .tap/real/clients into
// docs/operations/clients.json. `npm run docs` writes the tables from that file. A client that did not run
// keeps its line. Reports with faults are left out, and the exit code is 1.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const reports = join(root, '.tap/real/clients')
const file = join(root, 'docs/operations/clients.json')

const read = (path) => JSON.parse(readFileSync(path, 'utf8'))
const names = existsSync(reports) ? readdirSync(reports).filter((name) => name.endsWith('.json')) : []
if (names.length === 0) {
  console.error('no client was tested: npm run test:real')
  process.exit(1)
}
const clients = new Map(read(file).map((line) => [line.client, line]))
for (const name of names) {
  const { client, version, set, works, date, errors, faults } = read(join(reports, name))
  if (faults > 0) {
    console.error(`${client}: left out, because its test found ${faults} faults`)
    process.exitCode = 1
    continue
  }
  const refused = errors.map(({ path, status, why }) => ({ path, status, why }))
    .sort((a, b) => a.path < b.path ? -1 : a.path > b.path ? 1 : a.status - b.status)
  clients.set(client, { client, version, set, works, date, refused })
}
const lines = [...clients.values()].sort((a, b) => a.client.toLowerCase() < b.client.toLowerCase() ? -1 : 1)
writeFileSync(file, `${JSON.stringify(lines, null, 2)}\n`)
console.log(`${lines.length} clients; npm run docs writes the tables`)

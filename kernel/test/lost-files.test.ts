import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { missingHomeFile } from '../boot/lost-files.js'
import { openNodeKey } from '../boot/node-key.js'
import { tempHome } from '../../plugins/cluster/test/identity-kit.js'

const ALONE = '{"format":1,"term":3,"entries":{}}'
const VOTE = '{"format":1,"term":3,"votedFor":null,"boot":1}'
const MEMBERS = '{"format":1,"members":[{},{}]}'

interface Row {
  title: string
  files: Record<string, string>
  alone?: boolean
  /** Expected message; null if the home may start. */
  says: RegExp | null
}

const rows: Row[] = [
  { title: 'a cluster', files: { members: MEMBERS, promise: VOTE }, says: null },
  { title: 'no members', files: { promise: VOTE }, says: /members\.json is missing/ },
  { title: 'no vote', files: { members: MEMBERS }, says: /promise\.json is missing/ },
  { title: 'a damaged vote', files: { members: MEMBERS, promise: '{}' }, says: /promise\.json is damaged/ },
  { title: 'one that ran alone, with the cluster on', files: { alone: ALONE }, says: null },
  { title: 'one that runs alone', files: { alone: ALONE }, alone: true, says: null },
  { title: 'a file that was moved away, as advised', files: {}, alone: true, says: null },
  { title: 'members that were lost, which it needs no more', says: null, alone: true,
    files: { alone: ALONE, promise: VOTE } },
  { title: 'decisions of a later svc', files: { alone: '{"format":2}' }, alone: true, says: null },
  ...['x', '', 'null', '[]', '{}', '"x"',
    '{"format":"1","term":1,"entries":{}}', '{"format":1,"term":"x","entries":{}}',
    '{"format":1,"term":9007199254740993,"entries":{}}', '{"format":1,"term":1,"entries":[]}',
    '{"format":0,"term":1,"entries":{}}'].map((alone): Row => ({
    title: `damaged decisions: ${alone}`, files: { alone }, says: /alone\.json is damaged/
  }))
]

for (const { title, files, alone, says } of rows) {
  t.test(title, async (t) => {
    const home = tempHome(t)
    await openNodeKey(home, randomUUID())
    writeFileSync(join(home, 'node.json'), '{}')
    mkdirSync(join(home, 'state'), { recursive: true })
    rmSync(join(home, 'state/members.json'), { force: true })
    for (const [name, text] of Object.entries(files)) writeFileSync(join(home, `state/${name}.json`), text)
    const lost = missingHomeFile(home, alone === undefined ? {} : { alone })
    if (says === null) t.equal(lost, null)
    else t.match(`${lost?.message} ${lost?.remedy}`, says)
  })
}

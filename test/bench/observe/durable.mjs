// Events per second that the event store writes, compared with bare sqlite3 inserts into the same table.
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import sqlite3 from 'sqlite3'
import { newHome, removeHome } from '../lib/node.mjs'
import { figure } from '../lib/report.mjs'
import { interleave, median } from '../lib/stats.mjs'
import { entryMaker, rowOf, store, STORE_LIMITS } from './entries.mjs'

const TEXT = 200
/** Number of entries in the store's largest transaction. */
const GROUP = STORE_LIMITS.checkEntries
/** Events appended before the writer is awaited; fewer than the store's queue holds. */
const HANDED = 5000

const perSecond = (count, start) => count / ((performance.now() - start) / 1000)

async function throughStore (folder, count) {
  const log = await store(folder)
  const entries = entryMaker(TEXT)(count)
  const start = performance.now()
  for (let at = 0; at < count; at += HANDED) {
    log.append(entries.slice(at, at + HANDED))
    await log.flushed()
  }
  const rate = perSecond(count, start)
  const { dropped, counted, mode } = log.status()
  await log.close()
  if (dropped + counted > 0 || mode !== 'normal') throw new Error(`${mode}: ${dropped + counted} not written`)
  return rate
}

const call = (target, method, ...args) => new Promise((resolve, reject) => {
  target[method](...args, (error) => { error ? reject(error) : resolve() })
})

/**
 * Inserts `group` rows per transaction with a prepared statement, in the store's journal mode and table.
 */
async function bare (folder, count, group) {
  const db = await new Promise((resolve, reject) => {
    const made = new sqlite3.Database(join(folder, 'bare.db'), (error) => {
      error ? reject(error) : resolve(made)
    })
  })
  const run = (sql) => call(db, 'run', sql)
  db.serialize()
  for (const sql of ['PRAGMA journal_mode = WAL', 'PRAGMA synchronous = NORMAL',
    'CREATE TABLE ev(idx INTEGER PRIMARY KEY, at INTEGER, sid TEXT, origin TEXT, kind TEXT, body TEXT)',
    'CREATE INDEX ev_at ON ev(at)']) await run(sql)
  const entries = entryMaker(TEXT)(count)
  const insert = db.prepare('INSERT INTO ev VALUES(?, ?, ?, ?, ?, ?)')
  const start = performance.now()
  for (let at = 0; at < count; at += group) {
    const rows = entries.slice(at, at + group).map((entry) => JSON.parse(rowOf(entry).text))
    if (group > 1) await run('BEGIN')
    await Promise.all(rows.map((row) => call(insert, 'run', row)))
    if (group > 1) await run('COMMIT')
  }
  const rate = perSecond(count, start)
  await call(insert, 'finalize')
  await call(db, 'close')
  return rate
}

export default {
  title: 'Events a second on the disk',
  async run ({ short }) {
    const count = short ? 20_000 : 100_000
    const rounds = short ? 3 : 7
    const home = newHome()
    const inFolder = (work) => async () => {
      const folder = join(home, 'events')
      mkdirSync(folder)
      try {
        return await work(folder)
      } finally {
        rmSync(folder, { recursive: true })
      }
    }
    try {
      const rates = await interleave(rounds, {
        store: inFolder((folder) => throughStore(folder, count)),
        group: inFolder((folder) => bare(folder, count, GROUP)),
        single: inFolder((folder) => bare(folder, count / 10, 1))
      })
      const [own, group, single] = ['store', 'group', 'single'].map((name) => median(rates[name]))
      const row = (name, value) => [name, figure(value), figure(own / value)]
      return {
        columns: ['', 'events/s (median)', 'the store to it'],
        rows: [row('the store of the event log', own), row(`sqlite3, ${GROUP} rows a transaction`, group),
          row('sqlite3, a transaction a row', single)],
        targets: [],
        notes: [
          `${rounds} rounds of ${count} events in turn (a tenth of it one by one); ` +
            `the store gets ${HANDED} at a time`,
          'each with WAL and synchronous=NORMAL: what is committed outlives the process; the disk itself ' +
            'is waited for at each checkpoint'
        ],
        data: { rounds, count, rates }
      }
    } finally {
      removeHome(home)
    }
  }
}

// @ts-check
import t from 'tap'
import { lacks, toolContext } from 'svc/testing'
import wordCounts from '../tools/word-counts.js'

const NOW = '2027-01-01T00:00:00.000Z'
const nodeIdentities = { n1: { friendlyName: 'attic' }, n2: { friendlyName: 'cellar' } }

/**
 * What the tool finds where GET /state gives this.
 * @param {unknown} state
 * @param {{ node?: string }} [args]
 */
async function find (state, args = {}) {
  return await wordCounts.run(toolContext({ '/state': state }, NOW), args)
}

t.test('tells what each node has counted, or the one that is named', async (t) => {
  const state = { wordCounts: { n1: 3, n2: 4 }, nodeIdentities }
  const { facts, unknown } = await find(state)
  t.same(facts.map(({ text }) => text), [
    'attic has counted 3 words since it started.', 'cellar has counted 4 words since it started.'
  ])
  t.same(unknown, [])
  t.same((await find(state, { node: 'cellar' })).facts.map(({ about }) => about), [['cellar']])
})

t.test('says what to do where nothing was counted', async (t) => {
  const { facts } = await find({ wordCounts: {}, nodeIdentities })
  t.match(facts[0]?.remedy ?? '', /`svc call words@1\.0\.0/)
})

t.test('says what the caller may not see', async (t) => {
  const { facts, unknown } = await find(lacks('read'))
  t.same(facts, [])
  t.same(unknown, ['The counts could not be read: that needs the authority read.'])
})

// @ts-check
import assert from 'node:assert/strict'
import test from 'node:test'
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

test('tells what each node has counted, or the one that is named', async () => {
  const state = { wordCounts: { n1: 3, n2: 4 }, nodeIdentities }
  const { facts, unknown } = await find(state)
  assert.deepEqual(facts.map(({ text }) => text), [
    'attic has counted 3 words since it started.', 'cellar has counted 4 words since it started.'
  ])
  assert.deepEqual(unknown, [])
  assert.deepEqual((await find(state, { node: 'cellar' })).facts.map(({ about }) => about), [['cellar']])
})

test('says what to do where nothing was counted', async () => {
  const { facts } = await find({ wordCounts: {}, nodeIdentities })
  assert.match(facts[0]?.remedy ?? '', /`svc call words@1\.0\.0/)
})

test('says what the caller may not see', async () => {
  const { facts, unknown } = await find(lacks('read'))
  assert.deepEqual(facts, [])
  assert.deepEqual(unknown, ['The counts could not be read: that needs the authority read.'])
})

import t from 'tap'
import { createSetDiff, createLeases, modelOf, withCopies } from '../instances/copies.js'
import { card } from './samples.js'
import type { Bundle, BundledModel } from '../cards/bundle.js'
import type { LocatedModel, Models } from '../../staging/service.js'
import type { Assignment } from '../instances/shapes.js'

const VOICE = 'svc/voice'

function bundleOf (...ids: string[]): Bundle {
  const models = ids.map((id): BundledModel => ({ card: card(id), directory: `/package/${id}` }))
  return {
    engine: () => undefined, engines: () => [], cardReaders: () => [],
    model: (id) => models.find((one) => one.card.modelId === id),
    models: () => models
  }
}

function modelsOf (located: LocatedModel[], more: Partial<Models> = {}): Models {
  return {
    locate: (id: string) => located.find((one) => one.card.modelId === id),
    located: () => located,
    ...more
  } as Models
}

const staged = (id: string): LocatedModel => ({ card: card(id), directory: `/staging/${id}`, kind: 'staged' })

t.test('without the plugin of models the bundle is as it is', (t) => {
  const bundle = bundleOf(VOICE)
  t.equal(withCopies(bundle, undefined), bundle)
  t.end()
})

t.test('what is staged counts as what ships', (t) => {
  const bundle = withCopies(bundleOf(VOICE), modelsOf([staged('acme/m'), staged(VOICE)]))
  t.match(bundle.model('acme/m'), { directory: '/staging/acme/m' })
  t.match(bundle.model(VOICE), { directory: `/staging/${VOICE}` },
    'where it is is for the plugin of models to say')
  t.equal(bundle.model('acme/none'), undefined)
  t.same(bundle.models().map(({ card: { modelId } }) => modelId), [VOICE, 'acme/m'], 'each once')
  t.same(bundle.engines(), [], 'the rest of the bundle is there')
  t.match(withCopies(bundleOf(VOICE), modelsOf([])).model(VOICE), { directory: `/package/${VOICE}` },
    'what ships can be had before the copies are known')
  t.end()
})

t.test('the content that was pinned is loaded, and no other', (t) => {
  const models = modelsOf([staged('acme/m')], {
    locate: (id, digest) => digest === 'd1' ? staged(id) : undefined
  })
  const bundle = withCopies(bundleOf('acme/m'), models)
  t.match(modelOf(bundle, models, 'acme/m', 'd1'), { directory: '/staging/acme/m' })
  t.equal(modelOf(bundle, models, 'acme/m', 'd2'), undefined)
  t.match(modelOf(bundle, models, 'acme/m', undefined), { directory: '/package/acme/m' })
  t.match(modelOf(bundle, undefined, 'acme/m', 'd1'), { directory: '/package/acme/m' },
    'without the plugin of models')
  t.end()
})

const assignment = (runnerId: string, modelId = 'acme/m'): Assignment =>
  ({ runnerId, modelId, instanceId: `i-${runnerId}` })

t.test('a runner has a lease on its model until it is released, once', (t) => {
  const said: string[] = []
  const models = modelsOf([], {
    use: (modelId, by) => {
      said.push(`use ${modelId} by ${by}`)
      return () => { said.push(`release ${modelId}`) }
    }
  })
  const leases = createLeases(models)
  leases.take(assignment('r1'))
  leases.take(assignment('r1'))
  leases.take(assignment('r2'))
  leases.release('r1')
  leases.release('r1')
  leases.release('none')
  t.same(said, ['use acme/m by instance i-r1', 'use acme/m by instance i-r2', 'release acme/m'])
  leases.take(assignment('r1'))
  t.equal(said.at(-1), 'use acme/m by instance i-r1', 'it may take it anew')
  t.end()
})

t.test('a model that is just going is refused, and can be taken later', (t) => {
  let going = true
  const uses: string[] = []
  const models = modelsOf([], {
    use: (modelId) => {
      if (going) throw new Error('model_going')
      uses.push(modelId)
      return () => {}
    }
  })
  const leases = createLeases(models)
  t.throws(() => { leases.take(assignment('r1')) }, { message: 'model_going' })
  going = false
  leases.take(assignment('r1'))
  t.same(uses, ['acme/m'])
  t.end()
})

t.test('what came into a set and what left it is told when that changes, and only then', (t) => {
  const said: [string, boolean][] = []
  const compare = createSetDiff((id, there) => { said.push([id, there]) })
  const tell = (...now: string[]): [string, boolean][] => {
    said.length = 0
    compare(now)
    return [...said]
  }
  t.same(tell(), [])
  t.same(tell('a/a', 'a/b'), [['a/a', true], ['a/b', true]])
  t.same(tell('a/a', 'a/b', 'a/b'), [])
  t.same(tell('a/a', 'a/c'), [['a/b', false], ['a/c', true]])
  t.same(tell(), [['a/a', false], ['a/c', false]])
  t.end()
})

t.test('without the plugin of models nothing is leased', (t) => {
  const leases = createLeases(undefined)
  leases.take(assignment('r1'))
  leases.release('r1')
  t.pass('and nothing breaks')
  t.end()
})

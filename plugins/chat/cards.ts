/** For the job that makes cards. It reads files of models, so it must not run in a node's main thread. */
export { checkEncoder } from './embed/bind.js'
export { needsGguf, refusesCard } from './refusals.js'
export { modelSampling } from '../runners/language/sampling.js'

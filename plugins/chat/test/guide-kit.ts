import { declaredBy } from '../../../kernel/cli/declared.js'
import { bundled } from '../../index.js'

/** The declarations of all bundled plugins. */
export const declarations = declaredBy(bundled.map(({ manifest }) => manifest))

import { declaredBy } from '../../../kernel/cli/declared.js'
import { bundled } from '../../index.js'

/** What the whole product declares. */
export const declarations = declaredBy(bundled.map(({ manifest }) => manifest))

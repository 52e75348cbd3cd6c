// The reporter that node would choose itself.
import { spec, tap } from 'node:test/reporters';

const isNew = Number(process.versions.node.split('.')[0]) >= 23;

export default isNew || process.stdout.isTTY ? spec : tap;
